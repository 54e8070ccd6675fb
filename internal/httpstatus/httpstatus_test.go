package httpstatus_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"counterfoil/internal/httpstatus"
)

func TestRecorder(t *testing.T) {
	under := httptest.NewRecorder()
	r := httpstatus.Record(under)
	if r.Status != http.StatusOK {
		t.Errorf("%d before anything is written", r.Status)
	}
	r.WriteHeader(http.StatusTeapot)
	if r.Status != http.StatusTeapot || under.Code != http.StatusTeapot {
		t.Errorf("%d recorded, %d written", r.Status, under.Code)
	}
	if err := http.NewResponseController(r).Flush(); err != nil || !under.Flushed {
		t.Errorf("flushed: %v, %v", under.Flushed, err)
	}
}
