package main

import "container/heap"

// pipeline is the way of an event as a queue: callers that each wait for their
// answer, processor time on some cores, and one chain of flushes at a time that
// takes whatever has been accepted when it begins.
type pipeline struct {
	callers int
	cores   int
	work    float64 // processor time an event, seconds, before it is accepted
	after   float64 // processor time an event, seconds, that runs beside (views, index)
	flush   float64 // seconds a batch takes, whatever its size
	most    int     // events a batch holds at most
}

// rate simulates the pipeline for so many events and returns events a second. It is
// deterministic: no randomness, and ties in the order of the callers.
func (p pipeline) rate(events int) float64 {
	var (
		now      float64
		done     int
		accepted int // waiting for a batch
		flushing int // in the batch in flight
		working  = 0 // cores in use
		ready    = p.callers
		q        timeline
		backlog  = 0.0 // processor seconds of work that runs beside
	)
	for done < events {
		for working < p.cores && ready > 0 {
			ready--
			working++
			// Work that runs beside takes its share of the cores.
			cost := p.work
			if backlog > 0 {
				take := min(backlog, p.after)
				cost += take
				backlog -= take
			}
			heap.Push(&q, event{now + cost, accept})
		}
		if flushing == 0 && accepted > 0 {
			flushing = min(accepted, p.most)
			accepted -= flushing
			heap.Push(&q, event{now + p.flush, flushed})
		}
		e := heap.Pop(&q).(event)
		now = e.at
		switch e.what {
		case accept:
			working--
			accepted++
		case flushed:
			done += flushing
			ready += flushing
			backlog += float64(flushing) * p.after
			flushing = 0
		}
	}
	return float64(done) / now
}

type kind int

const (
	accept kind = iota
	flushed
)

type event struct {
	at   float64
	what kind
}

// timeline is a heap by time.
type timeline []event

func (e timeline) Len() int           { return len(e) }
func (e timeline) Less(i, j int) bool { return e[i].at < e[j].at }
func (e timeline) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *timeline) Push(x any)        { *e = append(*e, x.(event)) }
func (e *timeline) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
