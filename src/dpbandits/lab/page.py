"""Template of self-contained reports: one HTML file with the project's style and embedded pictures."""

from string import Template

__all__ = ["PAGE"]

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.55 system-ui, sans-serif; color: #222; max-width: 56rem; margin: 0 auto;
       padding: 1.5rem; }
.banner { background: #FFF4E0; border-left: 5px solid #E69F00; padding: .7rem 1rem; font-weight: 600; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.lead { font-size: 1.15rem; }
table { border-collapse: collapse; margin: .8rem 0; }
th, td { text-align: left; padding: .35rem 1rem .35rem 0; border-bottom: 1px solid #E4E4E4;
         vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
th { font-weight: 600; }
.bad td { background: #FBE3E4; }
img { max-width: 100%; }
pre { background: #F6F6F4; padding: 1rem; white-space: pre-wrap; font-size: .85rem; }
.small { color: #555; font-size: .9rem; }
</style>
</head>
<body>
<p class="banner">$banner</p>
$body
</body>
</html>
""")
"""Template of an HTML page. Values for `title`, `banner` and `body` are HTML: escape plain text before."""
