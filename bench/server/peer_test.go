package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// dialect is how a server is asked for what BenchmarkPeers measures.
type dialect interface {
	get(id string) []byte
	list(typ string) []byte // 50 of a type
	find(email string) []byte
	create(e string) []byte
	upsert(entities []string) []byte // creates them, or changes their attributes
	change(id, attributes string) []byte
	// changes returns a request for 200 changes since a time; after is the page before.
	changes(since time.Time, page int, after []byte) []byte
	load(b *testing.B, s *process, file string)
	export(b *testing.B, s *process)
}

func request(method, target, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body)
}

type sluice struct{ program string }

func (sluice) get(id string) []byte     { return get("/entity/" + id) }
func (sluice) list(typ string) []byte   { return get("/entity?limit=50&type=" + typ) }
func (sluice) find(email string) []byte { return get("/entity?type=person&attributes.email=" + email) }
func (sluice) create(e string) []byte   { return post("/create_entity", e) }
func (sluice) upsert(entities []string) []byte {
	return post("/upsert_entities", `{"entities":[`+strings.Join(entities, ",")+`]}`)
}

func (sluice) change(id, attributes string) []byte {
	return post("/update_entity", fmt.Sprintf(`{"id":%q,"attributes":%s}`, id, attributes))
}

func (sluice) changes(since time.Time, page int, after []byte) []byte {
	target := "/entity?limit=200&updated_since=" + url.QueryEscape(since.Format(time.RFC3339Nano))
	if page > 0 {
		var last struct {
			Next string `json:"next_cursor"`
		}
		json.Unmarshal(after, &last) //nolint:errcheck // without a cursor, the server returns the first page
		target += "&cursor=" + url.QueryEscape(last.Next)
	}
	return get(target)
}

func (p sluice) load(b *testing.B, s *process, file string) {
	command(b, p.program, "import", "entities", file, "--share", "1", "--url", "http://"+s.address)
}

func (p sluice) export(b *testing.B, s *process) {
	command(b, p.program, "export", "entities", "-o", filepath.Join(b.TempDir(), "entities.ndjson"), "--url", "http://"+s.address)
}

type postgres struct{}

func (postgres) get(id string) []byte     { return get("/entity/" + id) }
func (postgres) list(typ string) []byte   { return get("/entity?limit=50&type=" + typ) }
func (postgres) find(email string) []byte { return get("/person?email=" + email) }
func (postgres) create(e string) []byte   { return post("/create", e) }
func (postgres) upsert(entities []string) []byte {
	return post("/upsert", `{"entities":[`+strings.Join(entities, ",")+`]}`)
}

func (postgres) change(id, attributes string) []byte {
	return post("/change", fmt.Sprintf(`{"id":%q,"attributes":%s}`, id, attributes))
}

func (postgres) changes(since time.Time, page int, after []byte) []byte {
	from, id := since.Format(time.RFC3339Nano), ""
	if page > 0 {
		var list struct {
			Data []struct {
				ID        string
				UpdatedAt string `json:"updated_at"`
			}
		}
		json.Unmarshal(after, &list) //nolint:errcheck // without a place, the server returns the first page
		if n := len(list.Data); n > 0 {
			from, id = list.Data[n-1].UpdatedAt, list.Data[n-1].ID
		}
	}
	return get("/changes?limit=200&since=" + url.QueryEscape(from) + "&after=" + id)
}

func (postgres) load(b *testing.B, s *process, file string) {
	data, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer data.Close() //nolint:errcheck // only read
	transfer(b, http.MethodPost, "http://"+s.address+"/import", data)
}

func (postgres) export(b *testing.B, s *process) {
	transfer(b, http.MethodGet, "http://"+s.address+"/export", nil)
}

func transfer(b *testing.B, method, target string, body io.Reader) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, target, body)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // all of it has been read
	file, err := os.Create(filepath.Join(b.TempDir(), "response"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // nobody reads it
	if _, err := io.Copy(file, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
}

type pocketbase struct{}

const records = "/api/collections/entity/records"

func (pocketbase) get(id string) []byte { return get(records + "/" + id) }
func (pocketbase) list(typ string) []byte {
	return where("type='"+typ+"'", "id", "&perPage=50")
}

func (pocketbase) find(email string) []byte {
	return where("type='person'&&email='"+email+"'", "id", "&perPage=50")
}

// where leaves out the number of all records, as the other servers do.
func where(filter, sort, more string) []byte {
	return get(records + "?skipTotal=1&sort=" + sort + more + "&filter=" + url.QueryEscape("("+filter+")"))
}

func (p pocketbase) create(e string) []byte { return post(records, p.record(e)) }

// record repeats the attribute email as a field, because PocketBase has no index on a member of JSON.
func (pocketbase) record(e string) string {
	_, email, _ := strings.Cut(strings.TrimRight(e, "}"), `"email":`)
	return strings.TrimSuffix(e, "}") + `,"email":` + email + "}"
}

func (p pocketbase) upsert(entities []string) []byte {
	var all []string
	for _, e := range entities {
		all = append(all, `{"method":"PUT","url":"`+records+`","body":`+p.record(e)+`}`)
	}
	return post("/api/batch", `{"requests":[`+strings.Join(all, ",")+`]}`)
}

// change replaces all attributes.
func (pocketbase) change(id, attributes string) []byte {
	return request(http.MethodPatch, records+"/"+id, `{"attributes":`+attributes+`}`)
}

func (pocketbase) changes(since time.Time, page int, _ []byte) []byte {
	return where("updated>='"+since.UTC().Format("2006-01-02 15:04:05.000Z")+"'", "updated,id", fmt.Sprint("&perPage=200&page=", page+1))
}

// load sends batches, because PocketBase has no import of records.
func (p pocketbase) load(b *testing.B, s *process, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	var batches [][]byte
	for lines := range slices.Chunk(strings.Split(strings.TrimSpace(string(data)), "\n"), batchSize) {
		batches = append(batches, p.upsert(lines))
	}
	sendAll(b, s, batches)
}

// export reads pages, because PocketBase has no export of records.
func (pocketbase) export(b *testing.B, s *process) {
	c := dial(b, s.address, 0)
	defer c.Close() //nolint:errcheck // all responses have been read
	for last := ""; ; {
		send(b, c, where("id>'"+last+"'", "id", "&perPage=1000"))
		var page struct{ Items []struct{ ID string } }
		if err := json.NewDecoder(bytes.NewReader(c.body.Bytes())).Decode(&page); err != nil {
			b.Fatal(err)
		}
		if len(page.Items) == 0 {
			return
		}
		last = page.Items[len(page.Items)-1].ID
	}
}
