package progress

import (
	"bytes"
	"os"
	"testing"
	"time"
)

var events = Noun{"event", "events"}

func TestProgressInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, at State
		elapsed  time.Duration
		want     string
	}{
		{State{Part: -1}, State{Done: 100, Part: -1, Details: "2 rejected"}, 10 * time.Second, "100 events, 10/s, 2 rejected"},
		{State{}, State{Done: 250, Part: 0.25}, 10 * time.Second, "250 events, 25 %, 25/s, 30s left"},
		{State{}, State{Done: 1000, Part: 1}, 10 * time.Second, "1000 events, 100 %, 100/s, 0s left"},
		{State{}, State{}, 0, "0 events, 0 %, 0/s"},
		{State{}, State{Done: 1, Part: 0.1}, time.Second, "1 event, 10 %, 1/s, 9s left"},
		// The rate does not count an earlier run's records.
		{State{Done: 500, Part: 0.5}, State{Done: 600, Part: 0.6}, 10 * time.Second, "600 events, 60 %, 10/s, 40s left"},
		// While the command waits, no rate is shown.
		{State{}, State{Done: 250, Part: 0.25, Details: "2 rejected", Waiting: "no response, next try in 3 s"}, time.Second, "250 events, 25 %, no response, next try in 3 s"},
	} {
		p := &display{noun: events, from: tt.from}
		if got := p.text(tt.at, tt.elapsed); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestTheBarFillsTheRestOfTheLine(t *testing.T) {
	t.Parallel()
	const text = "250 events, 25 %" // 16 characters, which need 17 columns, because the last column stays empty
	for _, tt := range []struct {
		part    float64
		columns int
		want    string
	}{
		{0.25, 200, "[######..................] " + text},
		{0.25, 44, "[######..................] " + text},
		{0.25, 43, "[#####..................] " + text},
		{1, 28, "[########] " + text},
		{0.25, 27, text},
		{0.25, 17, text},
		{0.25, 16, text[:15]},
		{0.25, 1, ""},
		{-1, 200, text},
	} {
		if got := fit(text, tt.part, tt.columns); got != tt.want {
			t.Errorf("in %d columns: %q, want %q", tt.columns, got, tt.want)
		}
	}
}

// The Part of an export job that another run began is unknown at first.
func TestProgressCountsFromTheFirstKnownPart(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	state := State{Part: -1}
	began := time.Now()
	p := &display{out: &out, noun: events, state: func() State { return state }, began: began, from: state}
	p.show(began.Add(time.Second))
	state = State{Done: 500, Part: 0.5}
	p.show(began.Add(2 * time.Second))
	state = State{Done: 600, Part: 0.6}
	p.show(began.Add(12 * time.Second))
	if want := "0 events, 0/s\n500 events, 50 %, 0/s\n600 events, 60 %, 10/s, 40s left\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestABarIsRedrawnOnATerminalOnly(t *testing.T) {
	t.Parallel()
	for terminal, want := range map[bool]string{true: "\r\x1b[K[........................] 0 events, 0 %, 0/s", false: "0 events, 0 %, 0/s\n"} {
		var out bytes.Buffer
		p := &display{out: &out, terminal: terminal, noun: events, state: func() State { return State{} }}
		p.show(time.Time{})
		if out.String() != want {
			t.Errorf("terminal %v: %q", terminal, out.String())
		}
	}
	if null, err := os.Open(os.DevNull); err != nil || IsTerminal(null) || IsTerminal(new(bytes.Buffer)) {
		t.Errorf("a file is taken for a terminal (%v)", err)
	}
}
