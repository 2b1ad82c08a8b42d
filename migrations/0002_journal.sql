-- Journals of runs. Unlike the rest of the catalog this is no fold of the
-- ledger: a rebuild cannot bring it back, so nothing here is ever changed.

CREATE TABLE journal_run (
    run     TEXT PRIMARY KEY,
    -- RFC 3339 with a fixed number of digits, so that text order is time order.
    started TEXT NOT NULL,
    head    TEXT NOT NULL
) STRICT;

CREATE TABLE journal_event (
    run       TEXT    NOT NULL REFERENCES journal_run (run),
    number    INTEGER NOT NULL,
    at        TEXT    NOT NULL,
    uptime_ms INTEGER NOT NULL,
    process   TEXT    NOT NULL,
    entry     TEXT    NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;

CREATE TRIGGER journal_event_stays BEFORE UPDATE ON journal_event
BEGIN
    SELECT RAISE(ABORT, 'an event of a journal is never changed');
END;

CREATE TRIGGER journal_event_remains BEFORE DELETE ON journal_event
BEGIN
    SELECT RAISE(ABORT, 'an event of a journal is never deleted');
END;
