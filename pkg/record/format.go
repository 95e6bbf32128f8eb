package record

// Format is the format of a file of records, before compression.
type Format string

const (
	NDJSON Format = "ndjson"
	CSV    Format = "csv"
	JSON   Format = "json" // for imports only
)
