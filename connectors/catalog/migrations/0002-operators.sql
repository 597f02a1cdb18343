-- What operators did by hand to the log, and why they said they did.
CREATE TABLE operator_actions (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT now(),
    operator  text NOT NULL,                 -- user@host
    action    text NOT NULL,                 -- such as 'group reset'
    subject   text NOT NULL,                 -- what it was done to
    reason    text NOT NULL,
    details   jsonb NOT NULL,
    done      boolean NOT NULL DEFAULT false -- written before it is done, set after: false = it may or may not have been
);

-- `headwater trace EPOCH.SEQ` finds a state by its clock. Rows are appended in about the order of seq, so ranges of pages
-- hold ranges of seq: this costs a writer next to nothing.
CREATE INDEX file_versions_clock ON file_versions USING brin (epoch, seq);
