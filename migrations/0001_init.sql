-- The catalog: a fold of the ledger. Every row but those of `vanished` comes
-- from a verified record and is written anew by each fold.

-- Every record that is believed, whole.
CREATE TABLE record (
    path     TEXT PRIMARY KEY,
    sha256   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    signer   TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;

CREATE TABLE snapshot (
    path         TEXT PRIMARY KEY REFERENCES record (path) ON DELETE CASCADE,
    id           TEXT NOT NULL,
    lineage      TEXT NOT NULL,
    quality      TEXT NOT NULL,
    finished     TEXT NOT NULL,
    host         TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    image_bytes  INTEGER NOT NULL,
    object_bytes INTEGER NOT NULL,
    live_keys    INTEGER NOT NULL
) STRICT;
CREATE INDEX snapshot_by_id ON snapshot (id);
CREATE INDEX snapshot_by_lineage ON snapshot (lineage, finished);

-- The key versions that a snapshot's live objects need. `deposit` is the
-- fingerprint under which escrow must have the material; null when unknown.
CREATE TABLE snapshot_key (
    snapshot     TEXT NOT NULL REFERENCES snapshot (path) ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    provider     TEXT NOT NULL,
    name         TEXT NOT NULL,
    fingerprint  TEXT,
    deposit      TEXT,
    live_objects INTEGER NOT NULL,
    proof        TEXT NOT NULL,
    PRIMARY KEY (snapshot, position)
) STRICT;
CREATE INDEX snapshot_key_by_deposit ON snapshot_key (deposit);

CREATE TABLE receipt (
    path        TEXT PRIMARY KEY REFERENCES record (path) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL,
    provider    TEXT NOT NULL,
    name        TEXT NOT NULL,
    deposited   TEXT NOT NULL
) STRICT;
CREATE INDEX receipt_by_fingerprint ON receipt (fingerprint);

CREATE TABLE host (
    path     TEXT PRIMARY KEY REFERENCES record (path) ON DELETE CASCADE,
    host     TEXT NOT NULL,
    observed TEXT NOT NULL
) STRICT;
CREATE INDEX host_by_name ON host (host);

-- The key versions in a host's EncryptionConfiguration.
CREATE TABLE host_key (
    host        TEXT NOT NULL REFERENCES host (path) ON DELETE CASCADE,
    provider    TEXT NOT NULL,
    name        TEXT NOT NULL,
    fingerprint TEXT NOT NULL
) STRICT;
CREATE INDEX host_key_by_host ON host_key (host);

-- `manifest` is the digest of the manifest that the rehearsal believed;
-- `reached` is null, or the rung from 1 (open) to 4 (cluster).
CREATE TABLE attestation (
    path     TEXT PRIMARY KEY REFERENCES record (path) ON DELETE CASCADE,
    run      TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    manifest TEXT NOT NULL,
    host     TEXT NOT NULL,
    finished TEXT NOT NULL,
    reached  INTEGER,
    passed   INTEGER NOT NULL,
    failure  TEXT
) STRICT;
CREATE INDEX attestation_by_manifest ON attestation (manifest);

CREATE TABLE opening (
    attestation TEXT NOT NULL REFERENCES attestation (path) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL
) STRICT;
CREATE INDEX opening_by_attestation ON opening (attestation);
CREATE INDEX opening_by_fingerprint ON opening (fingerprint);

CREATE TABLE report (
    path     TEXT PRIMARY KEY REFERENCES record (path) ON DELETE CASCADE,
    run      TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    written  TEXT NOT NULL
) STRICT;

CREATE TABLE finding (
    object  TEXT NOT NULL,
    code    TEXT NOT NULL,
    message TEXT NOT NULL
) STRICT;

-- Records that this host saw in the ledger and that are there no more: what a
-- chain cannot show when its last records are removed. Local knowledge.
CREATE TABLE vanished (
    path   TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    signer TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (path, sha256)
) STRICT;
