package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"sluice/pkg/api"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

func createExportJob(s *service, r *request) (response, error) {
	if r.subject.ByKey() && !r.subject.Limits.MayCreateExportJobs() {
		return response{}, &apiError{
			status: http.StatusForbidden, code: "export_jobs_not_allowed",
			detail: "your API key has a quota of records, which does not count export jobs, and its plan does not allow export jobs; list the records instead, or ask the operator",
		}
	}
	var o api.ExportOrder
	err := record.Decoders{
		"id":           record.Text(&o.ID, record.CheckID),
		"resource":     record.Text(&o.Resource, nil),
		"format":       record.Text(&o.Format, nil),
		"csv_formulas": record.Text(&o.CSVFormulas, api.CheckFormulas),
		"filters": record.Decoders{
			"type":      record.Text(&o.Filters.Type, record.CheckName),
			"entity_id": record.Text(&o.Filters.EntityID, record.CheckID),
			"name":      record.Text(&o.Filters.Name, record.CheckName),
			"from":      record.Instant(&o.Filters.From),
			"to":        record.Instant(&o.Filters.To),
		}.Decode,
	}.Decode(r.body)
	if err != nil {
		return response{}, err
	}
	if o.ID == "" {
		if o.ID, err = newID(); err != nil {
			return response{}, err
		}
	}
	stored, created, err := exportjob.Create(r.Context(), s.stores.ExportJobs, r.workspace, o, s.ExportJobs, s.Now())
	return createResponse(stored, created, err)
}

func listExportJob(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor")
	limit := p.limit(maxPageLength)
	from := p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	page, err := exportjob.List(r.Context(), s.stores.ExportJobs, r.workspace, from, limit, s.Now())
	return listResponse(r, p, page, err)
}

func getExportJob(s *service, r *request) (response, error) {
	p := parseQuery(r, "file_name")
	if err := p.err(); err != nil {
		return response{}, err
	}
	id, err := pathID(r)
	if err != nil {
		return response{}, err
	}
	j, err := exportjob.Get(r.Context(), s.stores.ExportJobs, s.stores.ExportLinks, r.workspace, id, p.values.Get("file_name"), s.Now())
	if wrong, ok := errors.AsType[*record.Error](err); ok && wrong.Code == record.Invalid {
		return response{}, badParameters(wrong.Fields)
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

// getExportFile serves the file of a link, for which no API key is needed.
func getExportFile(s *service, r *request) (response, error) {
	if err := parseQuery(r, "name", "expires", "signature").err(); err != nil {
		return response{}, err
	}
	f, header, err := s.stores.ExportFiles.Open(r.URL)
	if errors.Is(err, exportjob.ErrLink) {
		err = &apiError{status: http.StatusForbidden, code: "invalid_link", detail: err.Error()}
	}
	return response{status: http.StatusOK, header: header, download: f}, err
}

// scheme returns the scheme that the client used, as reported by a proxy.
func scheme(r *request) string {
	if r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

func cancelExportJob(s *service, r *request) (response, error) {
	id, err := bodyID(r)
	if err != nil {
		return response{}, err
	}
	j, err := exportjob.Cancel(r.Context(), s.stores.ExportJobs, r.workspace, id, s.Now())
	return response{status: http.StatusOK, body: j}, err
}

func deleteExportJob(s *service, r *request) (response, error) {
	id, err := bodyID(r)
	if err != nil {
		return response{}, err
	}
	j, err := exportjob.DeleteFile(r.Context(), s.stores.ExportJobs, s.stores.ExportDeleter, r.workspace, id, s.Now())
	return response{status: http.StatusOK, body: j}, err
}

// bodyID returns the id in a body that has nothing else.
func bodyID(r *request) (id string, err error) {
	if err := (record.Decoders{"id": record.Text(&id, nil)}).Decode(r.body); err != nil {
		return "", err
	}
	if err := record.CheckID(id); err != nil {
		return "", record.Fields{{Field: "id", Detail: err.Error()}}.Err()
	}
	return id, nil
}
