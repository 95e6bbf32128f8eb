package exportjob

import (
	"encoding/json"
	"fmt"

	"sluice/pkg/record"
)

// document is the JSON form in which stores keep a job. It has more fields than the JSON of
// the API, but not the progress, which stores keep separately.
type document struct {
	Job
	Workspace     string       `json:"workspace"`
	CSVFormulas   Formulas     `json:"csv_formulas,omitzero"`
	FileExpiresAt *record.Time `json:"file_expires_at,omitzero"`
	Revision      int64        `json:"revision"`
}

// Marshal encodes a job and its progress as JSON. It returns the same bytes for equal jobs. If
// j.Progress is zero, progress is nil.
func Marshal(j Job) (job, progress []byte, err error) {
	job, err = json.Marshal(document{j, j.Workspace, j.CSVFormulas, j.FileExpiresAt, j.Revision})
	if err == nil {
		progress, err = json.Marshal(j.Progress)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encode export job: %w", err)
	}
	if string(progress) == "{}" {
		progress = nil
	}
	return job, progress, nil
}

// Unmarshal decodes the results of Marshal. If progress is empty, the job's Progress
// is zero.
func Unmarshal(job, progress []byte) (Job, error) {
	var d document
	err := json.Unmarshal(job, &d)
	j := d.Job
	j.Workspace, j.CSVFormulas, j.FileExpiresAt, j.Revision = d.Workspace, d.CSVFormulas, d.FileExpiresAt, d.Revision
	if err == nil && len(progress) > 0 {
		err = json.Unmarshal(progress, &j.Progress)
	}
	if err != nil {
		return Job{}, fmt.Errorf("decode export job: %w", err)
	}
	return j, nil
}
