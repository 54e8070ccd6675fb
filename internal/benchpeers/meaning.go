package main

// meaning says what the answer to a caller means, system by system: the figures
// compare only as far as this does.
const meaning = `What an answer means:

| system | event | on the disk before the answer | signed | in one order | checked by the caller |
|---|---|---|---|---|---|
| ledger | as it comes, about 1,200 bytes as a leaf | flushed: leaf, tree, and the key of its commitments | every event, Ed25519 | one log, and the lifecycle of its attempt is enforced | no; the proof is there with the next checkpoint |
| plain file with group commit | 700 bytes | flushed | no | as written | no |
| Tessera | 700 bytes | flushed: leaf and tree | checkpoints alone | one log | no |
| JetStream | 700 bytes | handed to the operating system; a power loss takes up to two minutes of it | no | one stream | no |
| JetStream, flush always | 700 bytes | flushed | no | one stream | no |
| immudb, verified | 700 bytes | flushed: values and transactions | no | one database | inclusion, and that the state which the client knew before is part of the new one |
| Rekor v2 | digest, signature and key; about 500 bytes | flushed: leaf and tree | checkpoints; each entry by its client | one log | the server checks the client's signature, and its own proof |
`
