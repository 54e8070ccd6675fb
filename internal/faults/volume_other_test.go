//go:build !linux

package faults

import (
	"errors"
	"testing"
)

func ext4Volume(testing.TB, bool) (*volume, error) { return nil, errors.New("only on Linux") }

func canDebug() error { return errors.New("only on Linux") }
