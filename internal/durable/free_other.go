//go:build !linux && !darwin

package durable

import "math"

// FreeBytes is unknown on this system and reported as unlimited.
func FreeBytes(string) (uint64, error) { return math.MaxUint64, nil }
