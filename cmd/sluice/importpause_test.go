package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/browsertest"
)

// holdBatches starts a proxy that holds each batch of events. The first channel delivers the
// number of events in each batch, and a send on the second lets one batch continue.
func holdBatches(t *testing.T, target string) (url string, arrived chan int, release chan struct{}) {
	t.Helper()
	arrived, release = make(chan int, 100), make(chan struct{})
	url = startProxy(t, target, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/create_events" {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			arrived <- bytes.Count(body, []byte(`"name":"visit"`))
			select {
			case <-release:
			case <-t.Context().Done():
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
	return url, arrived, release
}

// A paused import sends nothing. A cancelled import counts everything that the service stored,
// including the batch in flight. Importing the same file again adds the rest.
func dashboardPausesImports(t *testing.T, b *browsertest.Browser) {
	const rows = 500 // in five batches
	path := filepath.Join(t.TempDir(), "visits.csv")
	userFile(t, path, "name,note\n"+strings.Repeat("visit,"+strings.Repeat("x", 4000)+"\n", rows)+"visit,short,long\n")
	s := startWithImporter(t, unlimited...)
	url, arrived, release := holdBatches(t, s.url)
	stored := func() int { return len(contents(t, newClient(t, s.url))) }

	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(url + "/dashboard?view=import")
	tab.Wait(visible("import-file"))
	browsertest.Eval[string](tab, `String(AbortSignal.timeout = () => new AbortController().signal)`) // no timeouts, because Audit can take longer than a request is allowed to
	await := func() (records int) {
		t.Helper()
		select {
		case n := <-arrived:
			return n
		case <-time.After(time.Minute):
			t.Fatal("the page sent no batch")
			return 0
		}
	}
	begin := func() {
		t.Helper()
		tab.Choose("#import-file", path)
		tab.Click("#import-now")
		tab.Click("#import-check")
		tab.Click("#import-start")
	}
	shows := func(title string, created, existing, rejected int) {
		t.Helper()
		tab.Wait(textOf("import-progress-title") + fmt.Sprintf(`.startsWith('%s') && `, title) +
			textOf("import-counts") + fmt.Sprintf(` === '%d new · %d there already · %d rejected'`, created, existing, rejected))
	}

	begin()
	sent := await()
	release <- struct{}{}
	shows("Importing", sent, 0, 0)
	sent += await()
	tab.Audit("import-sending")
	tab.Click("#import-pause")
	release <- struct{}{}
	shows("Paused", sent, 0, 0)
	tab.Audit("import-paused") // takes long enough for another batch to arrive
	if n := len(arrived); n > 0 || stored() != sent {
		t.Errorf("while paused, the page sent %d batches; %d events are stored, want %d", n, stored(), sent)
	}
	tab.Click("#import-pause")
	sent += await()
	tab.Click("#import-cancel")
	tab.Wait(textOf("import-progress-title") + ` === 'Cancelling'`)
	release <- struct{}{}
	shows("Cancelled", sent, 0, 0)
	if n := len(arrived); n > 0 || stored() != sent || sent >= rows {
		t.Errorf("after the import was cancelled, the page sent %d batches; %d events are stored, want %d of %d", n, stored(), sent, rows)
	}

	close(release)
	tab.Click("#import-again")
	begin()
	shows("Imported", rows-sent, sent, 1)
	if stored() != rows {
		t.Errorf("%d events are stored, want %d", stored(), rows)
	}
}
