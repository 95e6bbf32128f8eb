package progress

import (
	"bytes"
	"os"
	"testing"
	"time"
)

func TestProgressInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		terminal bool
		from, at State
		elapsed  time.Duration
		want     string
	}{
		{false, State{Part: -1}, State{Done: 100, Part: -1, Details: "2 rejected"}, 10 * time.Second, "100 events, 10/s, 2 rejected"},
		{false, State{}, State{Done: 250, Part: 0.25}, 10 * time.Second, "250 events, 25 %, 25/s, 30s left"},
		{true, State{}, State{Done: 250, Part: 0.25}, 10 * time.Second, "[######..................] 250 events, 25 %, 25/s, 30s left"},
		{true, State{}, State{Done: 1000, Part: 1}, 10 * time.Second, "[########################] 1000 events, 100 %, 100/s, 0s left"},
		{true, State{}, State{}, 0, "[........................] 0 events, 0 %, 0/s"},
		// What an earlier run did is no rate of this one.
		{false, State{Done: 500, Part: 0.5}, State{Done: 600, Part: 0.6}, 10 * time.Second, "600 events, 60 %, 10/s, 40s left"},
	} {
		p := &display{terminal: tt.terminal, noun: "events", from: tt.from}
		if got := p.text(tt.at, tt.elapsed); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestABarIsRedrawnInPlaceAndALineIsNot(t *testing.T) {
	t.Parallel()
	for terminal, want := range map[bool]string{true: "\r\x1b[K[........................] 0 events, 0 %, 0/s", false: "0 events, 0 %, 0/s\n"} {
		var out bytes.Buffer
		p := &display{out: &out, terminal: terminal, noun: "events", state: func() State { return State{} }}
		p.show(time.Time{})
		if out.String() != want {
			t.Errorf("terminal %v: %q", terminal, out.String())
		}
	}
	if null, err := os.Open(os.DevNull); err != nil || IsTerminal(null) || IsTerminal(new(bytes.Buffer)) {
		t.Errorf("what is none is taken for a terminal (%v)", err)
	}
}
