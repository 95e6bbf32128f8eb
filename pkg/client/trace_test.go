package client

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "write testdata/pace.json")

// trace holds a pacer's decisions in a random run. Times are nanoseconds of the pacer's clock.
type trace struct {
	Share float64 `json:"share"`
	Rate  int     `json:"rate"`
	Steps []step  `json:"steps"`
}

// step is a request for admission or, if Of is set, a response.
type step struct {
	Now int64 `json:"now"`

	Route   string  `json:"route,omitzero"`
	Class   string  `json:"class,omitzero"`
	Records int64   `json:"records,omitzero"`
	Costs   []int64 `json:"costs,omitzero"` // only if the request is admitted
	Wait    int64   `json:"wait,omitzero"`  // time until the next attempt, if the request is not admitted; 0 before the first response
	Asked   int64   `json:"asked,omitzero"` // the part of the wait that Retry-After asks for
	Quota   string  `json:"quota,omitzero"` // the quota that has no room; the request is then not sent

	Of      int               `json:"of,omitzero"` // number of the request's step, from 1
	Status  int               `json:"status,omitzero"`
	Headers map[string]string `json:"headers,omitzero"`
}

// Pacers in other languages replay the traces in testdata/pace.json to show that they make the
// same decisions. After a change to the pacer, rewrite the file with -update.
func TestThePacerDecidesLikeItsTraces(t *testing.T) {
	var traces []trace
	for seed, tr := range []trace{{Share: 1}, {Share: 0.9}, {Share: 0.5, Rate: 20}} {
		synctest.Test(t, func(t *testing.T) {
			traces = append(traces, play(tr, rand.New(rand.NewPCG(uint64(seed), 1)))) //nolint:gosec // a seed
		})
	}
	var got bytes.Buffer
	for _, tr := range traces {
		text, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(append(bytes.ReplaceAll(text, []byte(`{"now"`), []byte("\n"+`{"now"`)), '\n'))
	}
	const path = "testdata/pace.json"
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the pacer decides otherwise than in %s; if that is meant, run: go test ./pkg/client -run Traces -update", path)
	}
}

func play(tr trace, random *rand.Rand) trace {
	const steps = 300
	p := newPacer(tr.Share, tr.Rate)
	service := &responder{random: random, ahead: 370 * time.Millisecond, base: p.base}
	type sent struct {
		step  int
		at    time.Duration
		costs []cost
	}
	var inFlight []sent
	for n := range steps {
		time.Sleep(time.Duration(random.IntN(60_000_000)))
		if random.IntN(30) == 0 {
			time.Sleep(time.Duration(random.IntN(15_000_000_000)))
		}
		now := p.now()
		if len(inFlight) > 0 && (random.IntN(2) == 0 || n > steps-len(inFlight)) {
			i := random.IntN(len(inFlight))
			one := inFlight[i]
			inFlight = append(inFlight[:i], inFlight[i+1:]...)
			status, headers := service.respond()
			header := make(http.Header)
			for name, value := range headers {
				header.Set(name, value)
			}
			p.leave(one.costs, one.at, status, header)
			tr.Steps = append(tr.Steps, step{Now: int64(now), Of: one.step + 1, Status: status, Headers: headers})
			continue
		}
		k := call{route: routes[random.IntN(len(routes))]}
		if k.route.class == classExport {
			k.records = []int64{0, 0, 1, 150}[random.IntN(4)]
		}
		s := step{Now: int64(now), Route: k.route.name, Class: k.route.class, Records: k.records}
		costs := k.costs()
		if failure := p.overQuota(costs); failure != nil {
			s.Quota = failure.Quota
		} else if _, retryAt, changed := p.admit(costs); changed == nil {
			inFlight = append(inFlight, sent{n, now, costs})
			for _, c := range costs {
				s.Costs = append(s.Costs, c.amount)
			}
		} else if p.clock != unknown {
			s.Wait, s.Asked = int64(retryAt-now), int64(max(p.asked(costs)-now, 0))
		}
		tr.Steps = append(tr.Steps, s)
	}
	return tr
}

var routes = []route{{name: "create-event", class: classImport}, {name: "list-event", class: classExport}, {name: "get-entity", class: classExport}, {name: "usage", class: classGeneral}}

// responder makes up the responses of a service whose clock is ahead of the client's and is
// set now and then.
type responder struct {
	random *rand.Rand
	base   time.Time
	ahead  time.Duration
}

func (s *responder) respond() (status int, headers map[string]string) {
	switch s.random.IntN(40) {
	case 0:
		return 0, nil // no response
	case 1:
		return 502, map[string]string{"Retry-After": "1"}
	case 2:
		s.ahead += time.Duration(s.random.IntN(5_000_000_000) - 2_500_000_000)
	}
	now := 1_000_000*time.Second + time.Since(s.base) + s.ahead
	limit := []int{200, 200, 200, 50, 900, 1}[s.random.IntN(6)]
	headers = map[string]string{
		"X-RateLimit-Reset": fmt.Sprint(int64(now/time.Second) + 1), "X-RateLimit-Limit": fmt.Sprint(limit),
		"X-RateLimit-Remaining": fmt.Sprint(s.random.IntN(limit + 1)),
	}
	if s.random.IntN(3) > 0 {
		headers["RateLimit-Policy"] = fmt.Sprintf(`"records";q=%d;w=1, "imports";q=%d;w=1, "requests";q=200;w=1`, limit, limit)
		headers["RateLimit"] = fmt.Sprintf(`"records";r=%d;t=1, "imports";r=%d;t=1, "requests";r=%d;t=1`, s.random.IntN(limit+1), s.random.IntN(limit+1), s.random.IntN(201))
	}
	if s.random.IntN(12) == 0 {
		s.addQuota(headers)
	}
	if s.random.IntN(8) > 0 {
		return 200, headers
	}
	if retryAfter := []string{"", "0", "1", "2"}[s.random.IntN(4)]; retryAfter != "" {
		headers["Retry-After"] = retryAfter
	}
	if s.random.IntN(4) == 0 {
		delete(headers, "X-RateLimit-Reset")
	}
	return 429, headers
}

// addQuota makes the X-RateLimit headers those of a quota.
func (s *responder) addQuota(headers map[string]string) {
	policy := []string{"imports-day", "records-month"}[s.random.IntN(2)]
	left, seconds := max(s.random.IntN(120)-20, 0), 1+s.random.IntN(90)
	reset, _ := strconv.Atoi(headers["X-RateLimit-Reset"])
	headers["X-RateLimit-Reset"] = strconv.Itoa(reset - 1 + seconds)
	headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"] = "5000", strconv.Itoa(left)
	headers["RateLimit-Policy"] = `"records";q=200;w=1, "imports";q=200;w=1, "requests";q=200;w=1, "` + policy + `";q=5000;w=86400`
	headers["RateLimit"] = fmt.Sprintf(`"records";r=150;t=1, "imports";r=150;t=1, "requests";r=150;t=1, "%s";r=%d;t=%d`, policy, left, seconds)
}
