//go:build !linux && !darwin

package durable

import "math"

// FreeBytes is unknown on this system and reported as unlimited.
func FreeBytes(string) (uint64, error) { return math.MaxUint64, nil }

// Occupied is unknown on this system and reported as nothing.
func Occupied(string, uint64) (uint64, error) { return 0, nil }

// Space is unknown on this system and reported as unlimited.
func Space(string) (free, size uint64, err error) { return math.MaxUint64, math.MaxUint64, nil }
