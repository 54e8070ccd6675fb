package main

import (
	"fmt"
	"math"
)

// Measured on 2 cores and one virtual disk; docs/benchmarks.md and
// docs/performance.md say how. Everything else on the page follows from these.
const (
	entryBytes  = 1_125.0 // an entry bundle's share of an event: the leaf and its length
	streamBytes = 1_306.0
	indexBytes  = 200.0
	viewBytes   = 474.0
	vaultBytes  = 128.0 // the key of an attempt; kept bodies come on top

	workSingle = 186e-6 // processor seconds an event over HTTP, on the node that takes it
	workBeside = 70e-6  // of index, views and the log, on every node
	loadWork   = 43e-6  // of a load generator on the same cores

	batchSeconds = 4.7e-3 // one Tessera batch, files and directories flushed one after the other
	batchMost    = 1_024

	auditRate = 8_250.0 // leaves a second and core, signatures verified
)

// logBytes is the log's share of an event.
func logBytes() float64 { return entryBytes + float64(hashBytes)*tileWidth/(tileWidth-1) }

func anEvent() string {
	parts := []struct {
		name  string
		bytes float64
	}{
		{"log (bundles and hash tiles)", logBytes()}, {"stream", streamBytes}, {"views", viewBytes}, {"index", indexBytes}, {"vault", vaultBytes},
	}
	rows := [][]string{{"part", "bytes an event", "10⁶ events", "10⁹ events", "10⁹ events, three nodes"}}
	total := 0.0
	for _, p := range parts {
		total += p.bytes
		rows = append(rows, []string{p.name, number(p.bytes), size(p.bytes * 1e6), size(p.bytes * 1e9), size(3 * p.bytes * 1e9)})
	}
	rows = append(rows, []string{"all", number(total), size(total * 1e6), size(total * 1e9), size(3 * total * 1e9)})
	return table(rows...)
}

// syncsOf is how many flushes one batch of the log takes: four for every bundle it
// touches (the bundle's and the tile's file, each with its directory), four for the
// state and the level above.
func syncsOf(batch float64) float64 { return 4*math.Ceil(batch/tileWidth) + 4 }

func flushes() string {
	rows := [][]string{{"events in a batch", "flushes a batch", "flushes an event", "events/s that the flushes allow"}}
	for _, n := range []float64{1, 32, 64, 256, 1024} {
		s := syncsOf(n)
		perFlush := batchSeconds / syncsOf(64)
		rows = append(rows, []string{number(n), number(s), fmt.Sprintf("%.2f", s/n), number(n / (s * perFlush))})
	}
	return table(rows...)
}

func callers() string {
	rows := [][]string{{"callers", "2 cores with the callers on them", "2 cores", "8 cores", "8 cores, a flush in half the time"}}
	for _, n := range []int{1, 8, 64, 512, 4096} {
		row := []string{number(float64(n))}
		for _, m := range []struct {
			cores int
			load  float64
			flush float64
		}{{2, loadWork, 1}, {2, 0, 1}, {8, 0, 1}, {8, 0, 0.5}} {
			p := pipeline{callers: n, cores: m.cores, work: workSingle + m.load, after: workBeside, flush: batchSeconds * m.flush, most: batchMost}
			row = append(row, number(p.rate(20_000)))
		}
		rows = append(rows, row)
	}
	return table(rows...)
}

func nodes() string {
	rows := [][]string{{"", "one node", "three nodes"}}
	one := workSingle + workBeside
	three := workSingle + 3*workBeside
	// RAFT sends each message from the leader to two followers, and from the node
	// that takes it to the leader if that is another one: two times in three.
	net := streamBytes * (2 + 2.0/3)
	rows = append(rows,
		[]string{"processor time an event, all nodes", fmt.Sprintf("%.0f µs", one*1e6), fmt.Sprintf("%.0f µs", three*1e6)},
		[]string{"on the busiest node, calls spread evenly", fmt.Sprintf("%.0f µs", one*1e6), fmt.Sprintf("%.0f µs", (workSingle/3+workBeside)*1e6)},
		[]string{"events/s that 2 cores a node allow", number(2 / one), number(2 / (workSingle/3 + workBeside))},
		[]string{"bytes on disk an event", number(logBytes() + streamBytes + indexBytes + viewBytes + vaultBytes), number(3 * (logBytes() + streamBytes + indexBytes + viewBytes + vaultBytes))},
		[]string{"bytes between nodes an event", "0", number(net)},
		[]string{"bytes between nodes at 5,000 events/s", "0", size(net*5000) + "/s"},
	)
	return table(rows...)
}

func logs() string {
	// What one log carries for years is not what it carries for a minute.
	const headroom = 0.6
	p := pipeline{callers: 512, cores: 8, work: workSingle, after: workBeside, flush: batchSeconds, most: batchMost}
	one := headroom * p.rate(20_000)
	rows := [][]string{{"events/s in all", "logs", "events a log and year", "bytes a day, all logs", "witness updates/s, one checkpoint a second and log"}}
	for _, r := range []float64{100, 1_000, 10_000, 100_000} {
		n := math.Ceil(r / one)
		rows = append(rows, []string{number(r), number(n), number(r / n * 86_400 * 365), size(r * 86_400 * (logBytes() + streamBytes + indexBytes + viewBytes + vaultBytes)), number(n)})
	}
	return table(rows...)
}

var sizes = []struct {
	name   string
	leaves uint64
}{{"10⁴", 1e4}, {"10⁶", 1e6}, {"5 × 10⁶", 5e6}, {"10⁹", 1e9}, {"10¹²", 1e12}}

func trees() string {
	rows := [][]string{{"leaves", "hashes in a proof", "bytes of a proof", "tiles that it reads", "hash tiles", "bytes of hash tiles", "bytes to a witness, checkpoint and proof"}}
	const note = 180 // origin, size, root and one signature line
	for _, s := range sizes {
		t := tree{s.leaves}
		full, partial := t.tiles()
		rows = append(rows, []string{s.name, number(float64(t.proofHashes())), number(float64(t.proofHashes() * hashBytes)), number(float64(t.levels())),
			number(float64(full + partial)), size(float64(t.hashTileBytes())), number(float64(note + t.consistencyHashes()*45))})
	}
	return table(rows...)
}

func objects() string {
	rows := [][]string{{"events/s", "full bundles and tiles a day", "partial ones a day, one checkpoint a second", "bytes written a day", "largest object"}}
	for _, r := range []float64{10, 100, 1_000, 5_000} {
		day := r * 86_400
		full := day / tileWidth * (1 + 1 + 1.0/255)
		// A checkpoint that is not at the end of a bundle needs a partial bundle and
		// a partial tile; the levels above change once in 256 bundles.
		partial := min(day, 86_400) * 2 * (1 + 1.0/tileWidth)
		rows = append(rows, []string{number(r), number(full), number(partial), size(day * logBytes()), size(tileWidth * (entryBytes))})
	}
	return table(rows...)
}

func audit() string {
	rows := [][]string{{"leaves", "to download", "at 100 Mbit/s", "to judge, one core", "eight cores", "a further day at 1,000 events/s"}}
	for _, s := range sizes {
		n := float64(s.leaves)
		bytes := n * entryBytes // hash tiles follow from the entries
		day := 86_400 * 1_000.0
		rows = append(rows, []string{s.name, size(bytes), duration(bytes * 8 / 100e6), duration(n / auditRate), duration(n / auditRate / 8),
			size(day*entryBytes) + ", " + duration(day/auditRate)})
	}
	return table(rows...)
}
