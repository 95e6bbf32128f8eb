package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sluice/pkg/entity"
)

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // a test
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, error %v", resp.StatusCode, err)
	}
	return families
}

// value returns the sum of the metrics of a family whose labels include "name=value" for each of
// labels. For a histogram, it is the number of observations.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range families[name].GetMetric() {
		has := " "
		for _, l := range m.GetLabel() {
			has += l.GetName() + "=" + l.GetValue() + " "
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(has, " "+l+" ")
		}
		if all {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// During load, the metrics can be parsed; afterwards they say what has happened. The Grafana
// dashboard of the documentation uses only metrics that there are.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "LIMIT_RECORDS=5", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900"}, "--metrics", "127.0.0.1:0")
	url, err := s.ReadyText(t.Context(), `Metrics are at (\S+)\n`)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s.url)
	const writers, each = 4, 50
	var load sync.WaitGroup
	for w := range writers {
		load.Go(func() {
			for i := range each {
				if _, _, err := c.CreateEntity(t.Context(), entity.Draft{ID: fmt.Sprintf("%d-%d", w, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		scrape(t, url)
	}
	load.Wait()
	reader, refused, returned := s.client(t), 0, 0
	for refused == 0 {
		switch r := reader.check(t, "GET", "/entity?limit=3", ""); r.status {
		case http.StatusOK:
			returned += 3
		case http.StatusTooManyRequests:
			refused++
		}
	}
	got := scrape(t, url)
	commits := value(got, "sluice_store_commit_duration_seconds")
	if commits == 0 || commits > writers*each || got["sluice_store_commit_writes"].GetMetric()[0].GetHistogram().GetSampleSum() != writers*each {
		t.Errorf("%v commits of %v writes", commits, got["sluice_store_commit_writes"])
	}
	reader.want(t, http.StatusCreated, "POST", "/create_export_job", `{"resource":"entity","format":"ndjson"}`)
	err = s.Ready(t.Context(), time.Minute, func(context.Context) error {
		if got = scrape(t, url); value(got, "sluice_jobs_ended_total", "kind=export", "status=succeeded") != 1 {
			return errors.New("the export job has not succeeded")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"sluice_http_requests_total", []string{"route=create-entity", "class=import", "status=201"}, writers * each},
		{"sluice_http_request_duration_seconds", []string{"route=create-entity"}, writers * each},
		{"sluice_http_requests_total", []string{"route=list-entity", "status=429"}, float64(refused)},
		{"sluice_records_returned_total", []string{"route=list-entity"}, float64(returned)},
		{"sluice_refusals_total", []string{"rule=records"}, float64(refused)},
		{"sluice_decisions_total", []string{"decision=refused"}, float64(refused)},
		{"sluice_records", []string{"resource=entity"}, writers * each},
		{"sluice_records", []string{"resource=event"}, 0},
		{"sluice_jobs", []string{"kind=erasure", "state=waiting"}, 0},
	} {
		if v := value(got, want.name, want.labels...); v != want.value {
			t.Errorf("%s %v is %v, want %v", want.name, want.labels, v, want.value)
		}
	}
	for _, name := range []string{"sluice_store_read_duration_seconds", "sluice_store_file_bytes", "sluice_store_written_bytes_total", "sluice_charge_duration_seconds", "process_resident_memory_bytes", "go_goroutines"} {
		if value(got, name) == 0 {
			t.Errorf("%s is missing or 0", name)
		}
	}
	checkDashboard(t, got)
}

func checkDashboard(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	text, err := os.ReadFile("../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`\b(sluice|process|go)_[a-z_]+`).FindAllString(string(text), -1)
	if len(used) < 10 {
		t.Errorf("the dashboard uses only %q", used)
	}
	for _, name := range used {
		whole := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if families[name] == nil && families[whole] == nil && name != "sluice_access_refusals_total" { // no request was rejected
			t.Errorf("the dashboard uses %s, which does not exist", name)
		}
	}
}
