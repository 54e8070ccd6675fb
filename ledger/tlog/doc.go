// Package tlog appends leaves to the transparency log in exactly the order they
// are given, and signs only trees that it computed itself. It is the one user
// of Tessera.
//
// # Order
//
// Tessera keeps the order of entries inside a batch, not between batches, and a
// batch error can mean "durable all the same". So one batch is in flight at a
// time, ever; it is filled exactly (an appender for every batch size in use, so
// that no timer can split it), all its futures are awaited, every index is
// compared, and the stored size and root afterwards are compared with the ones
// computed here from the leaves. After an error the stored state decides
// whether the batch was kept.
//
// # The guard
//
// Tessera's own files are not believed. When its state file is lost, Tessera
// starts again at size 0; when it is restored from an old copy, it writes other
// leaves over old indexes. The guard is a record outside the log's directory:
// origin, size, root and compact range of a tree that was computed from leaves
// which this process appended, or which passed Config.CheckLeaf. It only grows,
// by compare-and-set, and it is stored before a checkpoint of that tree is
// signed. A log that disagrees with it is neither appended to nor published.
//
// # Several nodes
//
// Nodes that share the log's key append the same leaves, each to a tree of its own.
// Config.Fence stands around every signature, so that one node at a time signs;
// the others take its checkpoints with [Log.Adopt], once their own tree gives the
// same root. A node that joins starts with an empty log (Config.Join). The steps and
// their order are in docs/spec/lease.md.
//
// # What is in the directory
//
//	DIR/checkpoint       newest signed checkpoint, written by Publish and Adopt
//	DIR/tile/…           tiles and entry bundles, C2SP tlog-tiles
//	DIR/.state/treeState Tessera's size and root: the commit point of a batch
//	DIR.lock             held while the log is open
//	GUARD/record.json    the guard
//
// # Limits
//
// Nobody can tell from the inside that the log and the guard were restored
// together from one old copy: that is what witnesses are for. Tessera panics
// when it cannot open its lock file, for instance when the process has run out
// of file descriptors; a restart goes on from what is durable.
package tlog
