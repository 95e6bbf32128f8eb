package exportjob

import (
	"encoding/json"
	"fmt"

	"sluice/pkg/record"
)

// document is a job as stores keep it: in JSON, with what the API does not show.
type document struct {
	Job
	Workspace     string       `json:"workspace"`
	CSVFormulas   Formulas     `json:"csv_formulas,omitzero"`
	FileExpiresAt *record.Time `json:"file_expires_at,omitzero"`
	Revision      int64        `json:"revision"`
	Progress      Progress     `json:"progress"`
}

// Marshal returns all of j as JSON, the same bytes for equal jobs.
func Marshal(j Job) ([]byte, error) {
	b, err := json.Marshal(document{j, j.Workspace, j.CSVFormulas, j.FileExpiresAt, j.Revision, j.Progress})
	if err != nil {
		return nil, fmt.Errorf("encode export job: %w", err)
	}
	return b, nil
}

// Unmarshal decodes what Marshal returned.
func Unmarshal(b []byte) (Job, error) {
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return Job{}, fmt.Errorf("decode export job: %w", err)
	}
	j := d.Job
	j.Workspace, j.CSVFormulas, j.FileExpiresAt, j.Revision, j.Progress = d.Workspace, d.CSVFormulas, d.FileExpiresAt, d.Revision, d.Progress
	return j, nil
}
