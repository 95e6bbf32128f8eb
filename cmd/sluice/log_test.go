package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// With --log, every request has a line, with the fields of the functions' log. Without it, only
// requests that are refused or fail.
func TestLog(t *testing.T) {
	t.Parallel()
	// logged returns what a server logs that refuses the last of its requests.
	logged := func(t *testing.T, args ...string) (log string, requests int) {
		s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "LIMIT_REQUESTS=1"}, args...)
		c, status := s.client(t), 0
		for ; status != http.StatusTooManyRequests; requests++ {
			status = c.check(t, "GET", "/entity/ada", "").status
		}
		_, log, _ = strings.Cut(s.stop(t), "Ctrl-C stops the server.\n")
		return log, requests
	}
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		log, requests := logged(t, "--log", "json")
		type line struct {
			Time, Level, Msg, Route, Address string
			RequestID                        string `json:"request_id"`
			Status                           int
			RefusedBy                        string `json:"refused_by"`
		}
		lines, last := 0, line{}
		for text := range strings.Lines(log) {
			if text[0] != '{' {
				continue // what the server prints
			}
			lines, last = lines+1, line{}
			if err := json.Unmarshal([]byte(text), &last); err != nil || last.Time == "" || last.Msg != "request" || last.Route != "get-entity" || !strings.HasPrefix(last.Address, "127.1.") || last.RequestID == "" {
				t.Errorf("%v: line %s", err, text)
			}
			if lines < requests && (last.Level != "INFO" || last.Status != http.StatusNotFound) {
				t.Errorf("line of a 404: %s", text)
			}
		}
		if lines != requests || last.Level != "WARN" || last.Status != http.StatusTooManyRequests || last.RefusedBy != "requests" {
			t.Errorf("%d lines of %d requests: %s", lines, requests, log)
		}
	})
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		if log, requests := logged(t, "--log", "text"); strings.Count(log, "msg=request") != requests {
			t.Errorf("%d requests: %s", requests, log)
		}
	})
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		if log, _ := logged(t); strings.Count(log, "msg=") != 1 || !strings.Contains(log, "status=429") || !strings.Contains(log, "refused_by=requests") {
			t.Errorf("not only the request that was refused: %s", log)
		}
	})
	t.Run("another format", func(t *testing.T) {
		t.Parallel()
		wantRun(t, inEnv(t, []string{"DATA_DIR=" + t.TempDir()}, "serve", "--log", "xml"), exitFailure, "", `--log="xml" must be json or text`)
	})
}
