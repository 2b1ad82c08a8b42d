-- A key that a rehearsal needed and that escrow did not give. The rehearsal
-- counts for the very manifest that it names by digest, as everywhere.
CREATE VIEW loss AS
SELECT DISTINCT k.deposit AS fingerprint, r.signer, r.seq, a.finished AS at
FROM attestation a
JOIN record r ON r.path = a.path
JOIN record m ON m.sha256 = a.manifest
JOIN snapshot_key k ON k.snapshot = m.path
WHERE a.failure IN ('escrow.key-missing', 'escrow.not-opened')
  AND k.deposit IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM opening o WHERE o.attestation = a.path AND o.fingerprint = k.deposit);

-- What shows that escrow has a key: a deposit of it, and an opening.
CREATE VIEW presence AS
SELECT t.fingerprint, r.signer, r.seq, t.deposited AS at
FROM receipt t JOIN record r ON r.path = t.path
UNION ALL
SELECT o.fingerprint, r.signer, r.seq, a.finished
FROM opening o JOIN attestation a ON a.path = o.attestation JOIN record r ON r.path = a.path;

-- Losses that nothing later took back. One signer's records are in the order of
-- its chain, which no clock changes. Of two signers' records only the times can
-- be compared, and within one second it is the loss that is believed.
CREATE VIEW standing_loss AS
SELECT l.fingerprint, l.signer, l.seq, l.at FROM loss l
WHERE NOT EXISTS (
    SELECT 1 FROM presence p
    WHERE p.fingerprint = l.fingerprint
      AND CASE WHEN p.signer = l.signer THEN p.seq > l.seq ELSE p.at > l.at END);
