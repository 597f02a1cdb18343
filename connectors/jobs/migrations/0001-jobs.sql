-- Jobs, and all that must not disagree about them. The schema is first in the search path.

CREATE TABLE tenants (
    tenant               text PRIMARY KEY,
    weight               double precision NOT NULL DEFAULT 1 CHECK (weight > 0),  -- of its share of each pool
    max_running          int,                 -- granted and running at once; null: no limit, here and below
    max_queued           int,
    requests_per_minute  int,
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
    tenant       text NOT NULL REFERENCES tenants,
    day          date NOT NULL,
    gpu_seconds  double precision NOT NULL DEFAULT 0,
    amount       bigint NOT NULL DEFAULT 0,   -- millionths of the currency
    jobs         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
);

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
);
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
    partition      int NOT NULL,              -- of jobs.grants
    host           text NOT NULL,
    state          text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining', 'gone')),
    registered_at  timestamptz NOT NULL DEFAULT now(),
    seen_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX workers_pool ON workers (pool) WHERE state = 'active';

CREATE TABLE jobs (
    job            text PRIMARY KEY,
    tenant         text NOT NULL REFERENCES tenants,
    pool           text NOT NULL REFERENCES pools,
    model          text NOT NULL,
    state          text NOT NULL DEFAULT 'queued',
    version        bigint NOT NULL DEFAULT 1,      -- of every change of state
    epoch          bigint NOT NULL DEFAULT 0,      -- of the newest grant
    result_epoch   bigint,
    request        jsonb NOT NULL,                 -- prompt, seconds, size, parameters, input_url, metadata
    priority       smallint NOT NULL DEFAULT 0,
    cost_seconds   double precision NOT NULL,      -- GPU seconds expected
    deadline       timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now(),
    queued_at      timestamptz NOT NULL DEFAULT now(),  -- first: a retry does not lose its place
    not_before     timestamptz,                    -- a transient failure backs off until then
    started_at     timestamptz,
    completed_at   timestamptz,                    -- of any final state
    expires_at     timestamptz,                    -- until when the result is kept
    deleted_at     timestamptz,
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
    retry_of       text REFERENCES jobs,
    trace          text                            -- W3C traceparent of the request
) WITH (fillfactor = 80);
CREATE INDEX jobs_waiting ON jobs (pool, queued_at) WHERE state IN ('queued', 'granted');
CREATE INDEX jobs_deadline ON jobs (deadline) WHERE state IN ('queued', 'granted') AND deadline IS NOT NULL;
CREATE INDEX jobs_of_tenant ON jobs (tenant, created_at DESC, job DESC);
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE expires_at IS NOT NULL;

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
    job          text NOT NULL REFERENCES jobs,
    epoch        bigint NOT NULL,
    pool         text NOT NULL,
    worker       text NOT NULL,
    incarnation  bigint NOT NULL,
    granted_at   timestamptz NOT NULL DEFAULT now(),
    claimed_at   timestamptz,
    ended_at     timestamptz,
    outcome      text,                        -- completed, failed, lease_lost, released, cancelled, expired, superseded
    code         text,
    message      text,
    log_tail     text,
    step         int,
    steps        int,
    resumed_step int,
    gpu_seconds  double precision,
    swept_at     timestamptz,                 -- its outputs were removed
    PRIMARY KEY (job, epoch)
);
CREATE TABLE leases (                         -- one a granted, running or cancelling job that a worker has; narrow
    job          text PRIMARY KEY REFERENCES jobs,
    epoch        bigint NOT NULL,
    pool         text NOT NULL,
    tenant       text NOT NULL,
    worker       text NOT NULL,
    incarnation  bigint NOT NULL,
    stage        text NOT NULL DEFAULT 'granted' CHECK (stage IN ('granted', 'generating', 'finishing')),
    expires_at   timestamptz NOT NULL,
    step         int NOT NULL DEFAULT 0,
    steps        int NOT NULL DEFAULT 0,
    step_at      timestamptz NOT NULL DEFAULT now(),
    median_step  double precision             -- seconds
) WITH (fillfactor = 50);
CREATE INDEX leases_worker ON leases (worker);

CREATE TABLE idempotency (
    tenant       text NOT NULL REFERENCES tenants,
    key          text NOT NULL,
    fingerprint  bytea NOT NULL,
    job          text NOT NULL REFERENCES jobs,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);
CREATE TABLE charges (
    job          text PRIMARY KEY REFERENCES jobs,
    epoch        bigint NOT NULL,
    tenant       text NOT NULL,
    gpu_seconds  double precision NOT NULL,
    amount       bigint NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE deliveries (
    delivery      text PRIMARY KEY,           -- the webhook-id: derived from job and type, the same whoever writes it
    job           text NOT NULL REFERENCES jobs,
    tenant        text NOT NULL,
    type          text NOT NULL,              -- video.completed, video.failed, video.cancelled, video.expired
    url           text NOT NULL,
    body          jsonb NOT NULL,
    state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts      int NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL DEFAULT now(),
    taken_until   timestamptz,
    taken_by      text,
    last_status   int,
    last_error    text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz
);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'pending';
CREATE INDEX deliveries_job ON deliveries (job);
CREATE TABLE disabled_endpoints (             -- a receiver that answered 410
    tenant  text NOT NULL REFERENCES tenants,
    url     text NOT NULL,
    reason  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, url)
);

CREATE TABLE outbox (                         -- rows go when the log has acknowledged them
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job          text NOT NULL,
    version      bigint NOT NULL,
    event        jsonb NOT NULL,
    taken_until  timestamptz
);
CREATE TABLE alive (                          -- leases run only while each of these ticks
    name       text PRIMARY KEY,              -- sweep, endpoint
    ticked_at  timestamptz NOT NULL DEFAULT now()
);

-- Every change of a job's state passes here: the table of transitions, versions, epochs, and the row for the log.
CREATE FUNCTION job_event(j jobs) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'state', j.state, 'epoch', j.epoch, 'pool', j.pool, 'tenant', j.tenant, 'model', j.model,
        'size', j.request ->> 'size', 'seconds', j.request ->> 'seconds', 'priority', j.priority,
        'cost_seconds', j.cost_seconds, 'progress', j.progress, 'reason', j.reason,
        'queued_us', (extract(epoch FROM j.queued_at) * 1e6)::bigint,
        'deadline_us', (extract(epoch FROM j.deadline) * 1e6)::bigint,
        'not_before_us', (extract(epoch FROM j.not_before) * 1e6)::bigint,
        'at_us', (extract(epoch FROM clock_timestamp()) * 1e6)::bigint, 'trace', j.trace)
$$;
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
    ELSIF NEW.version IS DISTINCT FROM OLD.version THEN
        RAISE EXCEPTION 'the version of job % changes with its state only', OLD.job;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER job_changes BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION job_changes();
CREATE FUNCTION job_tells() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.version <> OLD.version THEN
        INSERT INTO outbox (job, version, event) VALUES (NEW.job, NEW.version, job_event(NEW));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER job_tells AFTER INSERT OR UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION job_tells();
CREATE FUNCTION outbox_wakes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY headwater_outbox;
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_wakes AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION outbox_wakes();
