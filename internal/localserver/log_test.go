package localserver

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Without --log, nobody can fill the disk with lines, and an error can always be seen.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		logger, err := newLogger("", &written)
		if err != nil {
			t.Fatal(err)
		}
		of := logger.With("workspace", "a")
		for second, want := range []string{"all", "again"} {
			for range 3 * maxLines {
				logger.Info("no line")
				of.Warn(want)
			}
			logger.Error("error of " + want)
			if n := strings.Count(written.String(), "msg="+want+" workspace=a"); n != maxLines {
				t.Errorf("%d lines, want %d", n, maxLines)
			}
			if !strings.Contains(written.String(), "error of "+want) || strings.Count(written.String(), "too many lines") != second+1 {
				t.Errorf("second %d: %.300q", second, written.String()[written.Len()-300:])
			}
			time.Sleep(time.Second)
		}
		if strings.Contains(written.String(), "no line") {
			t.Error("a line with level INFO was written")
		}
	})
}
