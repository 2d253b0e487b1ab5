-- What agents may do in PostgreSQL: read everything, and change their own rows of one table.
\getenv ant_password ANT_PASSWORD
SELECT 'CREATE ROLE ant LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ant') \gexec
ALTER ROLE ant PASSWORD :'ant_password';
GRANT SELECT ON ALL TABLES IN SCHEMA public TO ant;
GRANT INSERT, UPDATE, DELETE ON agents TO ant;
