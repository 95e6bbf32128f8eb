package bootstrap

import (
	"os"
	"testing"

	"sluice/internal/test/secrettest"
)

func TestMain(m *testing.M) { os.Exit(secrettest.Run(m)) }
