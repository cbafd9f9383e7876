-- Three roles for PostgreSQL, so that the hub itself can neither change nor delete what it recorded.
--
--   owner      owns the tables and migrates:      MCPHUB_DATABASE_URL=postgres://owner@… mcphub migrate
--   app        serves; of the audit's tables it may only read and append:
--              MCPHUB_MIGRATE=0 MCPHUB_DATABASE_URL=postgres://app@… mcphub serve
--   retention  runs `mcphub audit retain`, from a timer; the database still asks for a signed tombstone of each row
--
-- As the owner, after every migration:   psql -v app=hub_app -v retention=hub_retention -f postgresql_roles.sql
-- The roles must exist: CREATE ROLE hub_app LOGIN; CREATE ROLE hub_retention LOGIN;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO :app, :retention;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO :app;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO :app, :retention;

-- What is evidence: append and read, nothing else.
REVOKE UPDATE, DELETE, TRUNCATE ON
    invocations_mcprequestenvelope, invocations_mcptoolinvocation, sessions_app_auditevent,
    invocations_auditblock, invocations_auditleaves, invocations_audittombstone, tools_catalog_mcptoolversion
FROM :app;
REVOKE ALL ON django_migrations FROM :app;
GRANT SELECT ON django_migrations TO :app;

-- Retention reads what it decides by, writes tombstones and events, and removes what they cover.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO :retention;
GRANT INSERT ON invocations_audittombstone, sessions_app_auditevent TO :retention;
GRANT DELETE ON
    invocations_mcprequestenvelope, invocations_mcptoolinvocation, sessions_app_auditevent, invocations_auditleaves
TO :retention;
GRANT UPDATE (params) ON invocations_mcprequestenvelope TO :retention;
GRANT UPDATE (arguments, result, error) ON invocations_mcptoolinvocation TO :retention;
