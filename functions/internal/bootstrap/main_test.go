package bootstrap

import (
	"os"
	"testing"

	"sluice/internal/secrettest"
)

func TestMain(m *testing.M) { os.Exit(secrettest.Run(m)) }
