package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// runGo is the driver of the Go client.
func runGo(t *testing.T, programs []program) [][]json.RawMessage {
	t.Helper()
	results := make([][]json.RawMessage, len(programs))
	var group errgroup.Group
	group.SetLimit(programsAtATime)
	for i, p := range programs {
		group.Go(func() error {
			results[i] = runProgram(t, p)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	return results
}

func runProgram(t *testing.T, p program) []json.RawMessage {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	c, err := client.New(p.URL, client.Config{
		Key: p.Key, MaxTries: p.Config.MaxTries, MaxElapsed: seconds(p.Config.MaxElapsed), TryTimeout: seconds(p.Config.TryTimeout),
		Share: p.Config.Share, MinBackoff: time.Millisecond,
	})
	if err != nil {
		t.Error(err)
		return make([]json.RawMessage, len(p.Calls))
	}
	results := make([]json.RawMessage, len(p.Calls))
	one := func(i int) {
		got, err := callGo(t.Context(), c, p.Calls[i])
		if results[i], err = json.Marshal(outcome(got, err)); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for i := range p.Calls {
		if p.Together {
			wg.Go(func() { one(i) })
		} else {
			one(i)
		}
	}
	wg.Wait()
	return results
}

// arguments has a field for every argument that any call takes.
type arguments struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	EntityID   string          `json:"entity_id"`
	OccurredAt *record.Time    `json:"occurred_at"`
	Attributes json.RawMessage `json:"attributes"`
	Records    []arguments     `json:"records"`
	Since      *record.Time    `json:"since"`
	Until      *record.Time    `json:"until"`
	Ascending  bool            `json:"ascending"`
	Deleted    bool            `json:"include_deleted"`
	Limit      int             `json:"limit"`
	Cursor     string          `json:"cursor"`
	Resource   record.Resource `json:"resource"`
	Format     record.Format   `json:"format"`
	Offset     int64           `json:"offset"`
	IfRevision *int64          `json:"if_revision"`
	Replace    bool            `json:"replace"`
	Remove     bool            `json:"deleted"`
	Increment  string          `json:"increment"` // name of an attribute; "" to change nothing

	Where wheres `json:"where"`

	Scopes    []client.Scope `json:"scopes"`
	Workspace string         `json:"workspace"`
	Plan      string         `json:"plan"`
	Sources   []netip.Prefix `json:"sources"`
	ExpiresAt time.Time      `json:"expires_at"`
	Made      bool           `json:"made"`
	By        string         `json:"by"`
	Of        string         `json:"of"`
	Row       client.Limit   `json:"row"`
}

func (a arguments) entity() entity.Draft {
	return entity.Draft{ID: a.ID, Type: a.Type, Attributes: a.Attributes, Replace: a.Replace, Deleted: a.Remove, IfRevision: a.IfRevision}
}

func (a arguments) event() event.Draft {
	return event.Draft{ID: a.ID, Name: a.Name, EntityID: a.EntityID, OccurredAt: a.OccurredAt, Attributes: a.Attributes}
}

// wheres are conditions on one attribute each, in JSON an array or just one. The keys are
// "attribute", "descending", "equal" and operators.
type wheres []map[string]json.RawMessage

func (w *wheres) UnmarshalJSON(text []byte) error {
	if text[0] == '{' {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	return json.Unmarshal(text, (*[]map[string]json.RawMessage)(w))
}

// find returns a query by attributes. It decodes a JSON string by trimming the quotes, because
// the strings in this suite have no escapes.
func (a arguments) find() client.FindQuery {
	q := client.FindQuery{Type: a.Type, Limit: a.Limit, Cursor: a.Cursor}
	for _, where := range a.Where {
		attribute := strings.Trim(string(where["attribute"]), `"`)
		for name, value := range where {
			text := strings.Trim(string(value), `"`)
			switch name {
			case "attribute":
			case "descending":
				q.Descending = text == "true"
			case "equal":
				q.Where = append(q.Where, client.Condition{Attribute: attribute, Value: text})
			default:
				q.Where = append(q.Where, client.Condition{Attribute: attribute, Operator: name, Value: text})
			}
		}
	}
	return q
}

func drafts[T any](a arguments, draft func(arguments) T) (all []T) {
	for _, r := range a.Records {
		all = append(all, draft(r))
	}
	return all
}

// callGo makes a call, and returns its result in a form that is the same for all clients.
func callGo(ctx context.Context, c *client.Client, k call) (any, error) {
	var a arguments
	if err := json.Unmarshal(k.Args, &a); err != nil {
		return nil, err
	}
	switch k.Name {
	case "create_entity":
		e, created, err := c.CreateEntity(ctx, a.entity())
		return []any{e, created}, err
	case "upsert_entities":
		results, err := c.UpsertEntities(ctx, drafts(a, arguments.entity))
		return batch(results, func(e entity.Entity) bool { return e.Type != "" }), err
	case "update_entity", "update", "delete_entity":
		return changeEntity(ctx, c, k.Name, a)
	case "erase_entity":
		_, err := c.EraseEntity(ctx, a.ID)
		return nil, err
	case "get_entity":
		return c.GetEntity(ctx, a.ID)
	case "list_entities":
		if a.Where != nil {
			return c.FindEntities(ctx, a.find())
		}
		return c.ListEntities(ctx, client.EntityQuery{Type: a.Type, Limit: a.Limit, Cursor: a.Cursor})
	case "entities":
		if a.Where != nil {
			return all(c.Found(ctx, a.find()))
		}
		return all(c.Entities(ctx, client.EntityQuery{Type: a.Type, Limit: a.Limit, Cursor: a.Cursor}))
	case "changes":
		return changes(ctx, c, client.EntityChangeQuery{UpdatedSince: *a.Since, IncludeDeleted: a.Deleted, Type: a.Type, Limit: a.Limit, Cursor: a.Cursor})
	case "source":
		return c.Source(ctx)
	}
	return callGoMore(ctx, c, k.Name, a)
}

// callGoMore makes the calls that concern events and jobs.
func callGoMore(ctx context.Context, c *client.Client, name string, a arguments) (any, error) {
	switch name {
	case "create_event":
		e, created, err := c.CreateEvent(ctx, a.event())
		return []any{e, created}, err
	case "create_events":
		results, err := c.CreateEvents(ctx, drafts(a, arguments.event))
		return batch(results, func(e event.Event) bool { return e.Name != "" }), err
	case "get_event":
		return c.GetEvent(ctx, a.ID)
	case "events":
		return all(c.Events(ctx, client.EventQuery{EntityID: a.EntityID, Name: a.Name, From: a.Since, To: a.Until, Ascending: a.Ascending, Limit: a.Limit, Cursor: a.Cursor}))
	case "new_events":
		return newEvents(ctx, c, client.EventChangeQuery{CreatedSince: *a.Since, EntityID: a.EntityID, Limit: a.Limit, Cursor: a.Cursor})
	case "create_export_job":
		filters := api.ExportFilters{Type: a.Type, EntityID: a.EntityID, From: a.Since, To: a.Until}
		j, created, err := c.CreateExportJob(ctx, api.ExportOrder{ID: a.ID, Resource: a.Resource, Format: a.Format, Filters: filters})
		return []any{j, created}, err
	case "wait_for_export_job":
		return c.AwaitExportJob(ctx, a.ID, nil)
	case "cancel_export_job":
		return c.CancelExportJob(ctx, a.ID)
	case "delete_export_job":
		return c.DeleteExportJob(ctx, a.ID)
	case "export_jobs":
		return all(c.ExportJobs(ctx, client.ExportJobQuery{Limit: a.Limit}))
	case "download_export":
		var file bytes.Buffer
		_, err := c.DownloadExport(ctx, a.ID, a.Offset, &file)
		return file.String(), err
	case "held_since":
		since, err := c.HeldSince(ctx, a.ID)
		if since == (client.Time{}) {
			return nil, err
		}
		return since, err
	case "left_files":
		if a.Since == nil {
			a.Since = new(client.Time)
		}
		left, err := c.LeftFiles(ctx, a.ID, *a.Since)
		return append([]api.ExportJob{}, left...), err
	case "wait_for_erasure_job":
		return c.AwaitErasureJob(ctx, a.ID, nil)
	}
	return admin(ctx, c, name, a)
}

func admin(ctx context.Context, c *client.Client, name string, a arguments) (any, error) {
	switch name {
	case "create_api_key":
		return c.CreateAPIKey(ctx, client.NewAPIKey{Name: a.Name, Workspace: a.Workspace, Scopes: a.Scopes, Plan: a.Plan, From: a.Sources, ExpiresAt: a.ExpiresAt})
	case "api_keys":
		return all(c.APIKeys(ctx, client.APIKeyQuery{Workspace: a.Workspace, Limit: a.Limit}))
	case "set_api_key_plan":
		return c.SetAPIKeyPlan(ctx, a.ID, a.Plan)
	case "revoke_api_key":
		return c.RevokeAPIKey(ctx, a.ID, a.Made)
	case "set_limit":
		return c.SetLimit(ctx, a.Row)
	case "list_limits":
		return c.ListLimits(ctx)
	case "remove_limit":
		return map[string]string{"plan": a.Row.Plan}, c.RemoveLimit(ctx, a.Row)
	case "create_entity_index":
		x := client.NewEntityIndex{Type: a.Type, Workspace: a.Workspace}
		err := json.Unmarshal(a.Attributes, &x.Attributes)
		if err == nil {
			return c.CreateEntityIndex(ctx, x)
		}
		return nil, err
	case "remove_entity_index":
		x, names := client.NewEntityIndex{Type: a.Type, Workspace: a.Workspace}, []string{}
		if err := json.Unmarshal(a.Attributes, &names); err != nil {
			return nil, err
		}
		for _, name := range names {
			x.Attributes = append(x.Attributes, api.IndexAttribute{Name: name})
		}
		return c.RemoveEntityIndex(ctx, x)
	case "audit":
		return all(c.Audit(ctx, client.AuditQuery{Workspace: a.Workspace, By: a.By, Of: a.Of, Limit: a.Limit}))
	}
	return nil, fmt.Errorf("no call %q", name)
}

func all[T any](records func(func(T, error) bool)) (got []T, err error) {
	got = []T{}
	for r, failure := range records {
		if failure != nil {
			return got, failure
		}
		got = append(got, r)
	}
	return got, nil
}

// walk is the result of reading all pages of a list of changes.
type walk struct {
	Data        []any       `json:"data"`
	SyncedUntil record.Time `json:"synced_until"`
}

func changes(ctx context.Context, c *client.Client, q client.EntityChangeQuery) (w walk, err error) {
	return walked(ctx, c.EntityChanges(q), func(c entity.Change) any { return shown(c) })
}

func newEvents(ctx context.Context, c *client.Client, q client.EventChangeQuery) (w walk, err error) {
	return walked(ctx, c.EventChanges(q), func(e event.Event) any { return e })
}

func walked[T any](ctx context.Context, of *client.Walk[T], shown func(T) any) (w walk, err error) {
	for r, err := range of.All(ctx) {
		if err != nil {
			return w, err
		}
		w.Data = append(w.Data, shown(r))
	}
	w.SyncedUntil = of.SyncedUntil()
	return w, nil
}

// shown returns the part of a change that every client returns.
func shown(c entity.Change) map[string]any {
	m := map[string]any{"id": c.ID, "type": c.Type, "revision": c.Revision, "deleted": c.Deleted}
	if c.Reason != "" {
		m["reason"] = c.Reason
	}
	if !c.Deleted {
		m["entity"] = c.Entity
	}
	for name, at := range map[string]record.Time{"deleted_at": c.DeletedAt, "erased_at": c.ErasedAt} {
		if at != (record.Time{}) {
			m[name] = at
		}
	}
	return m
}

// batch converts the results of a batch. known reports whether a result includes the record.
func batch[T any](results []client.BatchResult[T], known func(T) bool) (all []map[string]any) {
	all = []map[string]any{}
	for _, r := range results {
		m := map[string]any{"created": r.Created}
		if r.Deleted {
			m["deleted"] = true
		}
		if known(r.Record) {
			m["record"] = r.Record
		}
		if r.Err != nil {
			m["error"] = problem(r.Err)
		}
		all = append(all, m)
	}
	return all
}

// outcome returns a call's result or its error. The error of a batch includes the results.
func outcome(got any, err error) any {
	if err == nil {
		return got
	}
	m := problem(err)
	if results, ok := got.([]map[string]any); ok {
		m["results"] = results
	}
	return map[string]any{"error": m}
}

func problem(err error) map[string]any {
	var e *client.Error
	if !errors.As(err, &e) {
		return map[string]any{"text": err.Error()}
	}
	kind := "error"
	for name, target := range map[string]error{
		"not found": client.ErrNotFound, "conflict": client.ErrConflict, "refused": client.ErrRefused,
		"revision mismatch": client.ErrRevisionMismatch, "unknown outcome": client.ErrUnknownOutcome,
	} {
		if errors.Is(err, target) {
			kind = name
		}
	}
	fields := []string{}
	for _, f := range e.Fields {
		fields = append(fields, f.Field+" "+f.Detail)
	}
	m := map[string]any{
		"kind": kind, "route": e.Route, "tries": e.Tries, "status": e.Status, "code": e.Code, "fields": fields,
		"retry_after": int(e.RetryAfter.Seconds()), "request_id": e.RequestID, "retryable": e.Retryable(),
		"current_revision": e.CurrentRevision, "text": err.Error(),
	}
	if errors.Is(err, client.ErrOverQuota) {
		m["kind"], m["quota"], m["quota_ends"] = "over quota", e.Quota, e.QuotaEnds.Unix()
	}
	return m
}
