package child_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/test/child"
)

type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Fatalf(format string, args ...any) { r.end("failed: "+format, args) }
func (r *recorder) Skipf(format string, args ...any)  { r.end("skipped: "+format, args) }

// end records the first call; a real test would end there.
func (r *recorder) end(format string, args []any) {
	if r.ended == "" {
		r.ended = fmt.Sprintf(format, args...)
	}
}

// In CI, a skipped test would go unnoticed.
func TestAMissingProgramSkipsATestButFailsItInCI(t *testing.T) {
	for ci, want := range map[string]string{"": "skipped: ", "true": "failed: "} {
		t.Setenv("CI", ci)
		r := &recorder{TB: t}
		if child.Require(r, errors.New("no engine"), "run: make engine"); !strings.HasPrefix(r.ended, want+"no engine") || !strings.HasSuffix(r.ended, "run: make engine") {
			t.Errorf("CI=%s: the test %s", ci, r.ended)
		}
	}
}
