package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type record struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Attributes json.RawMessage `json:"attributes"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

const columns = "id, type, attributes, created_at, updated_at"

type api struct{ pool *pgxpool.Pool }

func (a api) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /entity/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.one(w, r, "SELECT "+columns+" FROM entity WHERE id = $1", r.PathValue("id"))
	})
	mux.HandleFunc("GET /entity", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		a.list(w, r, "SELECT "+columns+" FROM entity WHERE type = $1 AND id > $2 ORDER BY id LIMIT $3", q.Get("type"), q.Get("after"), number(q.Get("limit")))
	})
	mux.HandleFunc("GET /person", func(w http.ResponseWriter, r *http.Request) {
		a.list(w, r, "SELECT "+columns+" FROM entity WHERE type = 'person' AND attributes->>'email' = $1 ORDER BY id LIMIT 50", r.URL.Query().Get("email"))
	})
	mux.HandleFunc("GET /changes", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		a.list(w, r, "SELECT "+columns+" FROM entity WHERE (updated_at, id) > ($1::timestamptz, $2) ORDER BY updated_at, id LIMIT $3", q.Get("since"), q.Get("after"), number(q.Get("limit")))
	})
	mux.HandleFunc("POST /create", func(w http.ResponseWriter, r *http.Request) {
		var e record
		if decode(w, r, &e) {
			a.one(w, r, "INSERT INTO entity (id, type, attributes) VALUES ($1, $2, $3) RETURNING "+columns, uuid.Must(uuid.NewV7()).String(), e.Type, e.Attributes)
		}
	})
	mux.HandleFunc("POST /change", func(w http.ResponseWriter, r *http.Request) {
		var e record
		if decode(w, r, &e) {
			a.one(w, r, "UPDATE entity SET attributes = attributes || $2, updated_at = clock_timestamp() WHERE id = $1 RETURNING "+columns, e.ID, e.Attributes)
		}
	})
	mux.HandleFunc("POST /upsert", a.upsert)
	mux.HandleFunc("POST /import", a.load)
	mux.HandleFunc("GET /export", a.export)
	return mux
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // 0 returns nothing
	return n
}

func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(r.Body).Decode(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func (a api) one(w http.ResponseWriter, r *http.Request, query string, args ...any) {
	rows, err := a.pool.Query(r.Context(), query, args...)
	if err == nil {
		var e record
		if e, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[record]); err == nil {
			respond(w, e)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

func (a api) list(w http.ResponseWriter, r *http.Request, query string, args ...any) {
	rows, err := a.pool.Query(r.Context(), query, args...)
	if err == nil {
		var all []record
		if all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[record]); err == nil {
			respond(w, map[string]any{"data": all})
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client may have disconnected
}

// upsert creates entities, or merges their attributes.
func (a api) upsert(w http.ResponseWriter, r *http.Request) {
	var batch struct{ Entities []record }
	if !decode(w, r, &batch) {
		return
	}
	var ids, types, attributes []string
	for _, e := range batch.Entities {
		ids, types, attributes = append(ids, e.ID), append(types, e.Type), append(attributes, string(e.Attributes))
	}
	// In order of id, so that concurrent batches do not wait for each other in a circle.
	a.list(w, r, `INSERT INTO entity (id, type, attributes) SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS new (id, type, attributes) ORDER BY id
		ON CONFLICT (id) DO UPDATE SET attributes = entity.attributes || excluded.attributes, updated_at = excluded.updated_at RETURNING `+columns, ids, types, attributes)
}

// load copies lines of JSON into the table.
func (a api) load(w http.ResponseWriter, r *http.Request) {
	lines := json.NewDecoder(r.Body)
	n, err := a.pool.CopyFrom(r.Context(), pgx.Identifier{"entity"}, []string{"id", "type", "attributes"}, pgx.CopyFromFunc(func() ([]any, error) {
		if !lines.More() {
			return nil, nil
		}
		var e record
		err := lines.Decode(&e)
		return []any{e.ID, e.Type, e.Attributes}, err
	}))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	respond(w, n)
}

// export sends all entities as lines of JSON.
func (a api) export(w http.ResponseWriter, r *http.Request) {
	rows, err := a.pool.Query(r.Context(), "SELECT "+columns+" FROM entity")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	buffer := bufio.NewWriterSize(w, 1<<16)
	lines := json.NewEncoder(buffer)
	var e record
	if _, err := pgx.ForEachRow(rows, []any{&e.ID, &e.Type, &e.Attributes, &e.CreatedAt, &e.UpdatedAt}, func() error { return lines.Encode(e) }); err != nil {
		panic(http.ErrAbortHandler)
	}
	buffer.Flush() //nolint:errcheck // the client may have disconnected
}
