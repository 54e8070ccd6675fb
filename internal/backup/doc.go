// Package backup copies a ledger while it runs, and makes a ledger from copies.
//
//	manifest.go  what a backup says of itself
//	write.go     one consistent copy as a tar file
//	read.go      read a tar file strictly, checking every digest
//	restore.go   a data directory from one whole backup and those that continue it
//	secrets.go   keys under a passphrase
//
// # What is in a backup
//
// The durable tree of one moment, with the tiles of exactly its size; the newest
// checkpoint; a guard record for that tree; the vault's rows, taken after the
// tree, so that no leaf is without the key of its attempt; the registry of event
// keys; cosignatures and incidents; notes of losses. Not in it: the stream and
// whatever is derived, which are made anew from the leaves; tokens; and keys,
// unless a passphrase was given (DUR-05). Events that were accepted and not logged
// at that moment are not in it.
//
// A restored ledger begins where the copy ends. What was signed later is not
// known to it: see docs/runbooks/backup.md.
package backup
