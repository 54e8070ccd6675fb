package wait

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		stop := Every(t.Context(), time.Second, func() { calls++ })
		time.Sleep(3500 * time.Millisecond)
		stop()
		time.Sleep(time.Minute)
		if calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
	})
}
