-- psql, as a superuser, once: the role and the database of the service. The role may forbid that its statements, which hold raw data,
-- come into the database's log.
\set ON_ERROR_STOP on
\set password `cat /run/secrets/password`
SET log_min_error_statement = panic;
CREATE ROLE dpbandits LOGIN PASSWORD :'password';
GRANT SET ON PARAMETER log_min_error_statement, log_error_verbosity TO dpbandits;
CREATE DATABASE dpbandits OWNER dpbandits ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE dpbandits FROM PUBLIC;
