// Package httpstatus tells which status a handler answered with.
package httpstatus

import "net/http"

// Recorder is a response that remembers its status. It keeps
// [http.NewResponseController] working. It is as little safe for concurrent use as
// what it records.
type Recorder struct {
	http.ResponseWriter
	Status int
}

// Record records the status that is written to w, 200 until one is.
func Record(w http.ResponseWriter) *Recorder {
	return &Recorder{ResponseWriter: w, Status: http.StatusOK}
}

// WriteHeader implements [http.ResponseWriter].
func (r *Recorder) WriteHeader(status int) {
	r.Status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.NewResponseController].
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush is for those who ask for an [http.Flusher].
func (r *Recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }
