"""What every page of ours keeps to, as questions to a browser that shows it."""

import os
from pathlib import Path

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))

CONTRAST = """() => {
  const channel = c => { c /= 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest('.unseen, .skip, title, desc')) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element.closest('svg') ? style.fill : style.color));
    const paper = light(behind(element.closest('svg') || element));
    const found = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    if (found < 4.5) low.push([walker.currentNode.textContent.trim(), found]);
  }
  return low;
}"""

RULES = """() => {
  const wrong = [];
  const all = query => [...document.querySelectorAll(query)];
  const text = one => (one.getAttribute('aria-label') || one.textContent).trim();
  for (const one of all('a[href], button, summary')) if (!text(one)) wrong.push(['no name', one.outerHTML]);
  for (const one of all('input, select'))
    if (!one.labels.length || !one.labels[0].textContent.trim()) wrong.push(['no label', one.id]);
  for (const one of all('svg:not([aria-hidden=true])')) {
    const names = (one.getAttribute('aria-labelledby') || '').split(' ');
    const found = names.map(id => document.getElementById(id));
    if (one.getAttribute('role') !== 'img' || found.some(name => !name || !name.textContent.trim()))
      wrong.push(['picture without a name', one.outerHTML.slice(0, 80)]);
  }
  for (const one of all('[role=region], nav, [tabindex="0"]'))
    if (!one.getAttribute('aria-label')) wrong.push(['landmark without a name', one.outerHTML.slice(0, 80)]);
  const named = all('nav, [role=region]').map(one => one.getAttribute('aria-label'));
  if (new Set(named).size < named.length) wrong.push(['landmarks of one name', named]);
  const ids = all('[id]').map(one => one.id);
  if (new Set(ids).size < ids.length) wrong.push(['ids twice', ids]);
  const levels = all('h1, h2, h3, h4').map(one => +one.tagName[1]);
  if (levels[0] !== 1 || levels.filter(one => one === 1).length !== 1) wrong.push(['headings', levels]);
  levels.reduce((above, below) => (below > above + 1 && wrong.push(['headings', levels]), below), 0);
  for (const query of ['main', 'header', 'footer'])
    if (all(query).length !== 1) wrong.push(['landmarks', query]);
  for (const table of all('table')) {
    if ([...table.querySelectorAll('th')].some(one => !one.scope)) wrong.push(['heading of no row']);
    const width = row => [...row.cells].reduce((sum, one) => sum + one.colSpan, 0);
    const widths = new Set([...table.rows].map(width));
    if (widths.size > 1) wrong.push(['rows of several widths', [...widths]]);
  }
  for (const one of all('ul, ol, dl')) {
    const inside = one.tagName === 'DL' ? ['DT', 'DD', 'DIV'] : ['LI'];
    if ([...one.children].some(child => !inside.includes(child.tagName))) wrong.push(['list', one.outerHTML]);
  }
  for (const one of all('button, nav a, .actions a')) {
    const box = one.getBoundingClientRect();
    const small = one.checkVisibility() && box.height < 24;
    if (small) wrong.push(['smaller than 24 pixels', text(one), box.height]);
  }
  if (!document.documentElement.lang || !document.title) wrong.push(['language or title']);
  const viewport = document.querySelector('meta[name=viewport]').content;
  if (/user-scalable|maximum-scale/.test(viewport)) wrong.push(['zoom', viewport]);
  if (all('[tabindex]').some(one => one.tabIndex > 0)) wrong.push(['order of tabs']);
  return wrong;
}"""

REACHED = """() => [...document.querySelectorAll('a[href], button, input, [tabindex="0"]')]
  .filter(one => one.checkVisibility()).length"""

FOCUSED = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  return [one.tagName, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2, box.width > 0];
}"""
