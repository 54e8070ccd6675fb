package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("waited %s: %v", time.Since(began), err)
		}
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(stopped) })
		began = time.Now()
		if err := For(ctx, time.Hour); !errors.Is(err, stopped) || time.Since(began) != time.Minute {
			t.Errorf("waited %s: %v", time.Since(began), err)
		}
	})
}
