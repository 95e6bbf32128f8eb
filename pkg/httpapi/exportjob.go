package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

func createExportJob(s *service, r *request) (response, error) {
	j := exportjob.Job{Workspace: r.workspace}
	var hasID, fromSet, toSet bool
	var resource, format, formulas string
	var from, to record.Time
	err := decodeBody(r, maxBodyBytes, fields{
		{"id", text(&j.ID, &hasID)},
		{"resource", text(&resource, nil)},
		{"format", text(&format, nil)},
		{"filters", object(fields{
			{"type", text(&j.Filters.Type, nil)},
			{"entity_id", text(&j.Filters.EntityID, nil)},
			{"from", instant(&from, &fromSet)},
			{"to", instant(&to, &toSet)},
		})},
		{"csv_formulas", text(&formulas, nil)},
	})
	if err != nil {
		return response{}, err
	}
	j.Resource, j.Format, j.CSVFormulas = exportjob.Resource(resource), exportjob.Format(format), exportjob.Formulas(formulas)
	if fromSet {
		j.Filters.From = &from
	}
	if toSet {
		j.Filters.To = &to
	}
	if !hasID {
		if j.ID, err = newID(); err != nil {
			return response{}, err
		}
	}
	stored, created, err := exportjob.Create(r.Context(), s.stores.ExportJobs, j, s.Now())
	return createResponse(stored, created, err)
}

// object reads the members of a JSON object.
func object(f fields) field {
	return func(value jsontext.Value) string {
		if value.Kind() != '{' {
			return "must be a JSON object"
		}
		var wrong *record.Error
		if err := f.read(value); errors.As(err, &wrong) {
			return "has members that cannot be accepted: " + sentence(wrong.Fields)
		} else if err != nil {
			return err.Error()
		}
		return ""
	}
}

func listExportJob(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor")
	q := exportjob.Query{Limit: p.limit(maxPageLength)}
	if c := p.cursor(r, true); c.OccurredAt != nil {
		q.Before = &exportjob.Position{CreatedAt: *c.OccurredAt, ID: c.ID}
	}
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := s.stores.ExportJobs.List(r.Context(), r.workspace, q)
	if err != nil {
		return response{}, err
	}
	var next cursor
	if n := len(page.Jobs); n > 0 {
		last := page.Jobs[n-1]
		next.ID, next.OccurredAt = last.ID, &last.CreatedAt
	}
	return listResponse(r, page.Jobs, page.More, next)
}

func getExportJob(s *service, r *request) (response, error) {
	id, err := recordID(r)
	if err != nil {
		return response{}, err
	}
	j, err := s.stores.ExportJobs.Get(r.Context(), r.workspace, id)
	if err == nil {
		j, err = exportjob.Show(r.Context(), s.stores.ExportLinks, j, s.Now())
	}
	if err != nil {
		return response{}, err
	}
	if link := j.DownloadURL; link != nil && (*link)[0] == '/' {
		own := fmt.Sprintf("%s://%s%s", scheme(r), r.Host, *link)
		j.DownloadURL = &own
	}
	return response{status: http.StatusOK, body: j}, nil
}

// scheme is how the client reached the service, as far as a proxy says.
func scheme(r *request) string {
	if r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

func cancelExportJob(s *service, r *request) (response, error) {
	var id string
	if err := decodeBody(r, maxBodyBytes, fields{{"id", text(&id, nil)}}); err != nil {
		return response{}, err
	}
	if err := record.CheckID(id); err != nil {
		return response{}, record.Fields{{Field: "id", Detail: err.Error()}}.Err()
	}
	j, err := exportjob.Cancel(r.Context(), s.stores.ExportJobs, r.workspace, id, s.Now())
	if err != nil {
		return response{}, err
	}
	return response{status: http.StatusOK, body: j}, nil
}
