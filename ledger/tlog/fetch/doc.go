// Package fetch takes a log from the tiles of other nodes, which it does not trust.
//
//	proven.go   tiles of a signed tree, each proven from its root down
//	peers.go    whom to ask; who answers wrongly is asked no more
//	fill.go     the tiles and bundles of that tree on the own disk
//	differ.go   the first leaf in which an own log is another one
//
// # What is proven
//
// All that is given is size and root of a tree that the log's key signed. The tiles at
// the right edge must give that root, and from there on each tile must have the hash
// that the tile above it says. Of a bundle every entry is hashed: the hash over its 256
// leaves must be the one that the proven tile above has. Hash tiles of level 0 are made
// from the leaves. At the end the root of all leaves is computed once more, by another
// code, from the hashes of the leaves alone. So no byte of a peer reaches the disk
// that the signed tree does not have, and a wrong one is named with where it is, what
// was expected and what came.
//
// # What is on the disk, and when
//
// Files are written where the log has them, above the size that the log has so far.
// Each is whole or not there, and flushed. They are nothing until the caller says that
// the log has the new size: who reads or appends before that sees the log of before.
// A kill at any moment therefore costs what was on its way. The next run hashes what
// lies there already, keeps what is proven, and fetches the rest.
//
// # Bounds
//
// Config.Workers bundles are in memory at once, about 256 KiB each with leaves of
// 1 KB, 16 MiB at most, and some hashes. What a peer sends is bounded by its
// tiles.Source before memory is taken for it.
package fetch
