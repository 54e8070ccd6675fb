package mcp_test

import (
	"os"
	"testing"

	"counterfoil/internal/testkit/natskit"
)

func TestMain(m *testing.M) {
	natskit.Child()
	os.Exit(m.Run())
}
