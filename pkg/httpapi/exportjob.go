package httpapi

import (
	"fmt"
	"net/http"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

func createExportJob(s *service, r *request) (response, error) {
	j := exportjob.Job{Workspace: r.workspace}
	err := decodeBody(r, record.Decoders{
		"id":           record.Text(&j.ID, record.CheckID),
		"resource":     record.Text(&j.Resource, nil),
		"format":       record.Text(&j.Format, nil),
		"csv_formulas": record.Text(&j.CSVFormulas, exportjob.CheckFormulas),
		"filters": record.Decoders{
			"type":      record.Text(&j.Filters.Type, record.CheckName),
			"entity_id": record.Text(&j.Filters.EntityID, record.CheckID),
			"from":      record.Instant(&j.Filters.From),
			"to":        record.Instant(&j.Filters.To),
		}.Decode,
	})
	if err != nil {
		return response{}, err
	}
	if j.ID == "" {
		if j.ID, err = newID(); err != nil {
			return response{}, err
		}
	}
	stored, created, err := exportjob.Create(r.Context(), s.stores.ExportJobs, j, s.ExportJobs, s.Now())
	return createResponse(stored, created, err)
}

func listExportJob(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor")
	q := exportjob.Query{Limit: p.limit(maxPageLength)}
	if c := p.cursor(r, true, false); c.At != nil {
		q.Before = &record.Position{At: *c.At, ID: c.ID}
	}
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := s.stores.ExportJobs.List(r.Context(), r.workspace, q)
	if err != nil {
		return response{}, err
	}
	var next cursor
	if n := len(page.Records); n > 0 {
		last := page.Records[n-1]
		next.ID, next.At = last.ID, &last.CreatedAt
	}
	return listResponse(r, page.Records, page.More, next)
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

// scheme returns the scheme of the URL that the client requested, as reported by a
// proxy.
func scheme(r *request) string {
	if r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

func cancelExportJob(s *service, r *request) (response, error) {
	var id string
	if err := decodeBody(r, record.Decoders{"id": record.Text(&id, nil)}); err != nil {
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
