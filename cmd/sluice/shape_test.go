package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
)

// orders is a CSV file as Excel saves it in Germany.
const orders = "\xef\xbb\xbfNr;Kunde;Datum;Betrag;Bemerkung\r\n1001;ada;01.03.2026;\"1.250,50\";\r\n1002;charles;29.03.2026;17;\"Eilt; bitte\r\nzweimal klingeln\"\r\n"

// The test runs the commands in docs/cli.md for files from spreadsheets and other programs. With
// --dry-run, these commands call no service.
func TestFilesAsPeopleHaveThem(t *testing.T) {
	t.Parallel()
	windows, err := charmap.Windows1252.NewEncoder().String("id,attributes.city\r\nada,Köln\r\nrené,Besançon\r\ncharles,\"5 €\"\r\n")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"orders.csv":       orders,
		"customers.json":   `[{"customer_no": 17, "name": "Ada", "tags": ["a", "b"]}, {"customer_no": 18, "name": null}]`,
		"visits.ndjson.gz": packed(t, `{"id":"v1","name":"visit","entity_id":"ada","occurred_at":"2026-01-02T15:04:05Z"}`+"\n"),
		"cities.csv":       windows,
		"payments.csv":     "payment,account,paid at,amount\np-1,ada,3/1/2026 4:05 PM,4.50\n",
	}
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    sluice (import \w+ (\S+) --map .*|import \w+ (\S+) --encoding .*|import \w+ (\S+\.gz)$)(\n      .*)*`).FindAllString(string(page), -1)
	if len(commands) != len(files) {
		t.Fatalf("docs/cli.md has %d commands for %d files: %q", len(commands), len(files), commands)
	}
	s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	dir := t.TempDir()
	for name, text := range files {
		overwrite(t, filepath.Join(dir, name), text)
	}
	shell := func(url, command, more string, code int, stdout, stderr string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.Replace(command, "sluice", program, 1)+more)
		cmd.Env, cmd.Dir = sluiceCommand(t, url).Env, dir
		wantRun(t, cmd, code, stdout, stderr)
	}
	for _, command := range commands {
		code, valid, stored := 0, "would be sent, 0 would be rejected. Nothing was sent.", ", 0 rejected. 1 call"
		if strings.Contains(command, "cities") {
			code, valid, stored = exitRejected, "2 would be sent, 1 would be rejected. Nothing was sent.", ", 1 rejected. 1 call"
		}
		shell(nowhere, command, " --dry-run | grep -F '"+valid+"'", 0, "", "")
		shell(nowhere, command, " --dry-run", code, "", "")
		shell(s.url, command, " | grep -F '"+stored+"'", 0, "", "")
	}
	c := s.client(t)
	for path, want := range map[string]string{
		"/event/1001":     `{"id":"1001","name":"order_placed","entity_id":"ada","occurred_at":"2026-02-28T23:00:00.000Z","attributes":{"Betrag":"1.250,50"}`,
		"/event/1002":     `{"id":"1002","name":"order_placed","entity_id":"charles","occurred_at":"2026-03-28T23:00:00.000Z","attributes":{"Betrag":"17","Bemerkung":"Eilt; bitte\r\nzweimal klingeln"}`,
		"/entity/17":      `{"id":"17","type":"customer","attributes":{"name":"Ada","tags":["a","b"]}`,
		"/entity/18":      `{"id":"18","type":"customer","attributes":{}`,
		"/event/v1":       `{"id":"v1","name":"visit"`,
		"/entity/ada":     `{"id":"ada","type":"entity","attributes":{"city":"Köln"}`,
		"/entity/charles": `{"id":"charles","type":"entity","attributes":{"city":"5 €"}`,
		"/event/p-1":      `{"id":"p-1","name":"payment","entity_id":"ada","occurred_at":"2026-03-01T21:05:00.000Z","attributes":{"amount":4.50}`,
	} {
		r := c.do(t, "GET", path, "")
		if !strings.HasPrefix(r.body, want) {
			t.Errorf("%s: %d %s, want %s", path, r.status, r.body, want)
		}
	}
}

// A dry run says what is wrong, as text and as JSON, and leaves no file behind.
func TestADryRunStoresNothing(t *testing.T) {
	t.Parallel()
	text := "name,occurred_at\nn,2026-01-02T15:04:05Z\nn,31.02.2026\n"
	for _, from := range []string{"file.csv", "-"} {
		cmd := sluiceCommand(t, nowhere, "import", "events", from, "--dry-run", "--format", "csv", "--json")
		cmd.Stdin = strings.NewReader(text)
		overwrite(t, filepath.Join(cmd.Dir, "file.csv"), text)
		out, _ := wantRun(t, cmd, exitRejected, "{", "1 record would be rejected")
		var got struct {
			DryRun          bool `json:"dry_run"`
			Valid, Rejected int
			First           struct{ Name string }
			Rejects         []struct {
				Reason   string
				Examples []struct{ Line int }
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || !got.DryRun || got.Valid != 1 || got.Rejected != 1 || got.First.Name != "n" ||
			len(got.Rejects) != 1 || got.Rejects[0].Examples[0].Line != 3 || !strings.Contains(got.Rejects[0].Reason, "RFC 3339") {
			t.Errorf("%s: %s, %v", from, out, err)
		}
		wantFiles(t, cmd.Dir, "file.csv")
	}
}

// The format follows from the name of the only file in the archive.
func TestImportOfAnArchive(t *testing.T) {
	t.Parallel()
	file := write(t, "backup.zip", string(zipped(t, "orders.csv", orders)))
	cmd := sluiceCommand(t, nowhere, "import", "events", file, "--dry-run", "--delimiter", ";", "--map", "Datum=occurred_at", "--time-format", "%d.%m.%Y", "--name", "n")
	wantRun(t, cmd, 0, "2 events: 2 would be sent, 0 would be rejected", "")
	cmd = sluiceCommand(t, nowhere, "import", "events", "-", "--format", "csv", "--dry-run", "--map", "Datum=occurred_at", "--time-format", "%d.%m.%Y", "--name", "n")
	cmd.Stdin = strings.NewReader(read(t, file))
	wantRun(t, cmd, 0, "2 events: 2 would be sent, 0 would be rejected", "")
}

func zipped(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	file, err := w.Create(name)
	if err == nil {
		_, err = file.Write([]byte(text))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
