-- Jobs, and all that must not disagree about them. The schema is first in the search path.
--
-- Hot rows are jobs, attempts and leases. No index of jobs names its state, in its columns or its condition: so a grant
-- and a claim change nothing that an index knows, and PostgreSQL keeps them on the row's page (HOT). A final state sets
-- completed_at, on which the conditions rest. There are no foreign keys between hot tables: each row is written by the
-- statement that compared and set the job, and a check would lock the same job, tenant or pool once more.
-- Locks are taken in the order of job ids. Who wants the lease of a job holds the job, or holds no job at all (beats).
-- Then usage, in the order of tenants.

CREATE TABLE tenants (
    tenant               text PRIMARY KEY,
    weight               double precision NOT NULL DEFAULT 1 CHECK (weight > 0),  -- of its share of each pool
    max_running          int,                 -- granted and running at once; null: no limit, here and below
    max_queued           int,                 -- not yet final, running ones too
    requests_per_minute  int CHECK (requests_per_minute > 0),
    gpu_seconds_per_day  double precision,
    retention_days       int NOT NULL DEFAULT 30,
    webhook_secrets      text[] NOT NULL DEFAULT '{}',  -- the newest first; two while one replaces the other
    disabled_at          timestamptz,
    created_at           timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE api_keys (
    hash        bytea PRIMARY KEY,            -- BLAKE3 of the key: keys are 32 random bytes, no password
    tenant      text NOT NULL REFERENCES tenants,
    hint        text NOT NULL,                -- its first characters, for people
    created_at  timestamptz NOT NULL DEFAULT now(),
    revoked_at  timestamptz
);
CREATE TABLE usage (                          -- what a tenant used of its day, UTC
    tenant       text NOT NULL,
    day          date NOT NULL,
    gpu_seconds  double precision NOT NULL DEFAULT 0,
    amount       bigint NOT NULL DEFAULT 0,   -- millionths of the currency
    jobs         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
) WITH (fillfactor = 50);
-- What quotas compare with, for tenants that have any. Unlogged: a write to it waits for no disk, so that the row of a
-- tenant is locked for microseconds; after a crash of the server it is empty, and every bucket full.
CREATE UNLOGGED TABLE allowances (
    tenant      text PRIMARY KEY,
    next_at     timestamptz NOT NULL DEFAULT '-infinity',  -- the bucket, as the time at which it is full (GCRA)
    unfinished  bigint NOT NULL DEFAULT 0,    -- jobs, at counted_at, and accepted since
    seconds     double precision NOT NULL DEFAULT 0,       -- GPU seconds that those are expected to take
    used        double precision NOT NULL DEFAULT 0,       -- GPU seconds of the day, at counted_at
    counted_at  timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

CREATE TABLE pools (
    pool                  text PRIMARY KEY,
    partition             int NOT NULL,       -- of jobs.requested and jobs.events
    owner                 text,
    owner_epoch           bigint NOT NULL DEFAULT 0,
    fallback              text REFERENCES pools,
    price                 bigint NOT NULL DEFAULT 0,   -- millionths of the currency per GPU second
    max_wait_seconds      double precision,   -- admission refuses a job whose start is further away; null: none is
    board                 jsonb,              -- what its scheduler publishes each second
    board_at              timestamptz
) WITH (fillfactor = 50);
CREATE TABLE models (
    model         text NOT NULL,
    pool          text NOT NULL REFERENCES pools,
    capabilities  jsonb NOT NULL,
    changed_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, pool)
);
CREATE TABLE workers (
    worker         text PRIMARY KEY,
    incarnation    bigint NOT NULL,           -- ns of its start: a restarted worker is another
    pool           text NOT NULL REFERENCES pools,
    slots          int NOT NULL CHECK (slots > 0),
    models         text[] NOT NULL,
    partition      int NOT NULL,              -- of jobs.grants
    host           text NOT NULL,
    state          text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining', 'gone')),
    registered_at  timestamptz NOT NULL DEFAULT now(),
    seen_at        timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
CREATE INDEX workers_pool ON workers (pool);

CREATE TABLE jobs (
    job            text COLLATE "C" PRIMARY KEY,   -- in the order of acceptance
    tenant         text NOT NULL,
    pool           text NOT NULL,
    model          text NOT NULL,
    size           text NOT NULL,                  -- 1280x720
    seconds        text NOT NULL,                  -- of the video, as its owner wrote it
    state          text NOT NULL DEFAULT 'queued',
    version        bigint NOT NULL DEFAULT 1,      -- of every change of state
    epoch          bigint NOT NULL DEFAULT 0,      -- of the newest grant
    result_epoch   bigint,
    request        jsonb NOT NULL,                 -- as it was asked: prompt, parameters, input_url, metadata, …
    priority       smallint NOT NULL DEFAULT 0,
    cost_seconds   double precision NOT NULL,      -- GPU seconds expected
    deadline       timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now(),
    queued_at      timestamptz NOT NULL DEFAULT now(),  -- first: a retry does not lose its place
    not_before     timestamptz,                    -- a transient failure backs off until then
    started_at     timestamptz,                    -- first claim
    completed_at   timestamptz,                    -- of any final state
    expires_at     timestamptz,                    -- until when the result is kept
    removed_at     timestamptz,                    -- its bytes are gone
    deleted_at     timestamptz,                    -- its owner sees it no more
    progress       smallint NOT NULL DEFAULT 0,    -- of the last change of state; leases know more
    leases_lost    int NOT NULL DEFAULT 0,
    failures       int NOT NULL DEFAULT 0,         -- transient ones
    crashes        int NOT NULL DEFAULT 0,         -- of the model's process, on this input
    reason         text NOT NULL DEFAULT 'accepted',
    error_code     text,
    error_message  text,
    checkpoint     jsonb,                          -- key, step, epoch
    result         jsonb,                          -- key, bytes, sha256, container, seconds, frames, …
    cost           bigint,
    webhook_url    text,
    retry_of       text COLLATE "C",
    trace          text                            -- W3C traceparent of the request
) WITH (fillfactor = 70);
CREATE INDEX jobs_open ON jobs (pool, queued_at, job) WHERE completed_at IS NULL;
CREATE INDEX jobs_open_of_tenant ON jobs (tenant) INCLUDE (cost_seconds) WHERE completed_at IS NULL;
CREATE INDEX jobs_deadline ON jobs (deadline) WHERE completed_at IS NULL AND deadline IS NOT NULL;
CREATE INDEX jobs_of_tenant ON jobs (tenant, created_at, job);
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE expires_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX jobs_deleted ON jobs (deleted_at) WHERE deleted_at IS NOT NULL AND removed_at IS NULL;

CREATE TABLE transitions (
    before  text NOT NULL,
    after   text NOT NULL,
    PRIMARY KEY (before, after)
);
INSERT INTO transitions VALUES
    ('queued', 'granted'), ('queued', 'cancelling'), ('queued', 'cancelled'), ('queued', 'expired'),
    ('queued', 'failed'),
    ('granted', 'running'), ('granted', 'queued'), ('granted', 'cancelling'), ('granted', 'expired'),
    ('running', 'completed'), ('running', 'failed'), ('running', 'queued'), ('running', 'cancelling'),
    ('cancelling', 'cancelled');

CREATE TABLE attempts (                       -- one a grant: the history that owners and operators read
    job          text COLLATE "C" NOT NULL,
    epoch        bigint NOT NULL,
    pool         text NOT NULL,
    worker       text NOT NULL,
    incarnation  bigint NOT NULL,
    granted_at   timestamptz NOT NULL DEFAULT now(),
    claimed_at   timestamptz,
    ended_at     timestamptz,
    outcome      text CHECK (outcome IN ('completed', 'failed', 'lease_lost', 'released', 'cancelled', 'expired')),
    code         text,
    message      text,
    log_tail     text,
    step         int,
    steps        int,
    resumed_step int,
    gpu_seconds  double precision,
    swept_at     timestamptz,                 -- what it left and nobody needs was removed
    PRIMARY KEY (job, epoch)
) WITH (fillfactor = 70);
CREATE INDEX attempts_unswept ON attempts (ended_at) WHERE swept_at IS NULL AND ended_at IS NOT NULL;
CREATE TABLE leases (                         -- one a granted, running or cancelling job that a worker has; narrow
    job          text COLLATE "C" PRIMARY KEY,
    epoch        bigint NOT NULL,
    pool         text NOT NULL,
    tenant       text NOT NULL,
    worker       text NOT NULL,
    incarnation  bigint NOT NULL,
    stage        text NOT NULL DEFAULT 'granted' CHECK (stage IN ('granted', 'generating', 'finishing')),
    expires_at   timestamptz NOT NULL,
    step         int NOT NULL DEFAULT 0,
    steps        int NOT NULL DEFAULT 0,
    step_at      timestamptz NOT NULL DEFAULT now(),  -- when the step was heard of first
    step_seconds double precision,            -- what a step takes, as far as beats tell
    step_limit   double precision NOT NULL DEFAULT 0, -- seconds, of the model
    load_limit   double precision NOT NULL DEFAULT 0  -- the same before its first step
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX leases_worker ON leases (worker);
CREATE INDEX leases_tenant ON leases (tenant);

CREATE TABLE idempotency (
    tenant       text NOT NULL,
    key          text NOT NULL,
    fingerprint  bytea NOT NULL,
    job          text COLLATE "C" NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_age ON idempotency USING brin (created_at);
CREATE TABLE charges (
    job          text COLLATE "C" PRIMARY KEY,
    epoch        bigint NOT NULL,
    tenant       text NOT NULL,
    gpu_seconds  double precision NOT NULL,
    amount       bigint NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE deliveries (                     -- the trigger below writes one for each final state of a job that has a URL
    delivery      text PRIMARY KEY,           -- the webhook-id: derived from job and type
    job           text COLLATE "C" NOT NULL,  -- a final state does not change: what is sent is read from its row
    tenant        text NOT NULL,
    type          text NOT NULL,              -- video.completed, video.failed, video.cancelled, video.expired
    url           text NOT NULL,
    endpoint      text NOT NULL GENERATED ALWAYS AS     -- who shares a breaker and a cap
        (tenant || ' ' || coalesce(substring(url FROM '^[a-zA-Z]+://([^/?#]+)'), url)) STORED,
    state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts      int NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL DEFAULT now(),
    taken_until   timestamptz,
    taken_by      text,
    last_status   int,
    last_error    text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    begun_at      timestamptz NOT NULL DEFAULT now(),   -- of its schedule: a replay begins anew
    ended_at      timestamptz
) WITH (fillfactor = 70);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'pending';
CREATE INDEX deliveries_endpoint ON deliveries (endpoint) WHERE state = 'pending';
CREATE INDEX deliveries_job ON deliveries (job);
CREATE TABLE disabled_endpoints (             -- a receiver that answered 410
    tenant  text NOT NULL REFERENCES tenants,
    url     text NOT NULL,
    reason  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, url)
);

CREATE TABLE outbox (                         -- rows go when the log has acknowledged them
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    taken_until    timestamptz,
    job            text COLLATE "C" NOT NULL,
    version        bigint NOT NULL,
    epoch          bigint NOT NULL,
    state          text NOT NULL,
    pool           text NOT NULL,
    left_pool      text,                      -- the pool that it was in before, where that is another
    tenant         text NOT NULL,
    model          text NOT NULL,
    size           text NOT NULL,
    seconds        text NOT NULL,
    priority       smallint NOT NULL,
    cost_seconds   double precision NOT NULL,
    progress       smallint NOT NULL,
    reason         text NOT NULL,
    queued_at      timestamptz NOT NULL,
    deadline       timestamptz,
    not_before     timestamptz,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    trace          text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE UNLOGGED TABLE alive (                 -- leases run out only while each of these ticks; empty after a crash
    name       text PRIMARY KEY,              -- sweep, endpoint
    ticked_at  timestamptz NOT NULL DEFAULT now()
);

-- Every change of a job's state passes here: the table of transitions, versions, epochs.
CREATE FUNCTION job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.epoch < OLD.epoch THEN
        RAISE EXCEPTION 'epoch of job % would go from % to %', OLD.job, OLD.epoch, NEW.epoch;
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state THEN
        IF NOT EXISTS (SELECT FROM transitions t WHERE t.before = OLD.state AND t.after = NEW.state) THEN
            RAISE EXCEPTION 'job % may not go from % to %', OLD.job, OLD.state, NEW.state;
        END IF;
        NEW.version := OLD.version + 1;
    ELSE
        RAISE EXCEPTION 'the version and the epoch of job % change with its state only', OLD.job;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER job_changes BEFORE UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR OLD.version <> NEW.version OR OLD.epoch <> NEW.epoch)
    EXECUTE FUNCTION job_changes();

-- And what it must tell others is written with it, whoever wrote it: the row for the log, and that for its owner.
CREATE FUNCTION job_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox (job, version, epoch, state, pool, tenant, model, size, seconds, priority, cost_seconds,
                        progress, reason, queued_at, deadline, not_before, trace)
    SELECT job, version, epoch, state, pool, tenant, model, size, seconds, priority, cost_seconds,
           progress, reason, queued_at, deadline, not_before, trace
    FROM now_rows;
    RETURN NULL;
END $$;
CREATE TRIGGER job_accepted AFTER INSERT ON jobs REFERENCING NEW TABLE AS now_rows
    FOR EACH STATEMENT EXECUTE FUNCTION job_accepted();
CREATE FUNCTION job_moved() RETURNS trigger LANGUAGE plpgsql
    SET enable_nestloop = off   -- the rows of a statement have no statistics: ten thousand were joined row by row
AS $$
BEGIN
    INSERT INTO outbox (job, version, epoch, state, pool, left_pool, tenant, model, size, seconds, priority,
                        cost_seconds, progress, reason, queued_at, deadline, not_before, trace)
    SELECT job, n.version, n.epoch, n.state, n.pool, nullif(o.pool, n.pool), n.tenant, n.model, n.size, n.seconds,
           n.priority, n.cost_seconds, n.progress, n.reason, n.queued_at, n.deadline, n.not_before, n.trace
    FROM now_rows n JOIN old_rows o USING (job)
    WHERE n.version <> o.version;
    INSERT INTO deliveries (delivery, job, tenant, type, url)
    SELECT 'wh_' || left(encode(sha256(convert_to(job || '.video.' || n.state, 'UTF8')), 'hex'), 32),
           job, n.tenant, 'video.' || n.state, n.webhook_url
    FROM now_rows n JOIN old_rows o USING (job)
    WHERE n.webhook_url IS NOT NULL AND n.version <> o.version
        AND n.state IN ('completed', 'failed', 'cancelled', 'expired');
    RETURN NULL;
END $$;
CREATE TRIGGER job_moved AFTER UPDATE ON jobs REFERENCING OLD TABLE AS old_rows NEW TABLE AS now_rows
    FOR EACH STATEMENT EXECUTE FUNCTION job_moved();
