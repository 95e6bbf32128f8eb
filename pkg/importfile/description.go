package importfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Description says what a file is and what its columns become. "sluice import" and the dashboard
// save it as JSON, and accept what the other one has saved.
type Description struct {
	Resource record.Resource `json:"resource"`
	Format   record.Format   `json:"format"`

	Encoding  string `json:"encoding,omitempty"`   // name in the Encoding Standard (WHATWG); UTF-8 if empty, or UTF-16 if the file begins with a mark of it
	SkipLines int    `json:"skip_lines,omitempty"` // lines before the header of a CSV file, or before the first record of an NDJSON file

	// How a CSV file is written.
	Delimiter string `json:"delimiter,omitempty"` // between cells; if empty, as in a line sep=; at the beginning, or else a comma
	Quote     string `json:"quote,omitempty"`     // character around cells, or NoQuote; a double quote if empty
	NoHeader  bool   `json:"no_header,omitempty"` // whether the first row is a record; the columns are then called 1, 2 and so on

	// Columns lists columns of a CSV file or members of JSON objects. If it is empty, the names
	// are those of an export, and any other column of a CSV file is an error. Otherwise, columns
	// that are not listed and not fields become attributes of the same name.
	//
	// A column without a name is called by its number, and is left out if it is not listed.
	Columns []Column `json:"columns,omitempty"`

	TimeFormats []string `json:"time_formats,omitempty"` // of occurred_at, tried in this order: RFC3339, UnixTime, UnixMilli, or the syntax of strftime; RFC3339 if empty
	TimeZone    string   `json:"time_zone,omitempty"`    // of times without an offset, such as Europe/Berlin; UTC if empty

	Time string `json:"time,omitempty"` // TimeNow: events without a time occur when they are imported; otherwise they are rejected

	EscapeIDs bool `json:"escape_ids,omitempty"` // whether characters that ids cannot have are replaced: a/b by a:2Fb

	// Mirror says that the records take the place of the entities that are stored, and that tombstones
	// delete them. Type then also says that the file is a walk with the filter Type: what has left the
	// filter is deleted. Without Type, such rows are rejected.
	Mirror bool `json:"mirror,omitempty"`

	Name string `json:"name,omitempty"` // of events that have none
	Type string `json:"type,omitempty"` // of entities that have none
}

// Column says what a column of a CSV file or a member of JSON objects becomes.
type Column struct {
	Source string    `json:"source"`          // name in the file; properties.time is the member time of the object in the member properties, unless a member has that name
	Field  string    `json:"field,omitempty"` // id, type, name, entity_id, occurred_at, attributes, or attributes.NAME; empty for the field or attribute with the name Source
	Out    bool      `json:"out,omitempty"`   // whether the column is left out
	Type   ValueType `json:"type,omitempty"`  // of an attribute; if empty, that of Options.Indexes, JSON in a file with the header of an export, or else Auto
}

// NoQuote is the Description.Quote of a CSV file in which a quote is a character like any other.
const NoQuote = "none"

// AttributePrefix begins the Field of a Column that becomes an attribute.
const AttributePrefix = "attributes."

// Parse reads a saved description. An unknown member is an error.
func Parse(text []byte) (Description, error) {
	var d Description
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	err := in.Decode(&d)
	if err == nil {
		if _, err = in.Token(); err == io.EOF {
			return d, d.Check()
		}
		err = errors.New("more text follows the description")
	}
	return d, fmt.Errorf("the description cannot be read: %w", err)
}

// Fields lists the fields that a column can become, except attributes.
func Fields(r record.Resource) []string {
	members := Members(r)
	ignored := record.SetByService(members)
	return slices.DeleteFunc(record.Columns(members), func(name string) bool { return slices.Contains(ignored, name) })
}

// Members lists the members that the records of a resource have.
func Members(r record.Resource) []record.Member {
	if r == record.Event {
		return new(event.Event).Members(nil)
	}
	return new(entity.Entity).Members(nil)
}

// Check returns an error that says what to change if no file can be imported with d.
func (d Description) Check() error {
	switch {
	case d.Resource != record.Entity && d.Resource != record.Event:
		return fmt.Errorf("the resource must be entity or event, not %q", d.Resource)
	case d.Format != record.NDJSON && d.Format != record.CSV && d.Format != record.JSON:
		return fmt.Errorf("the format must be ndjson, csv or json, not %q", d.Format)
	case d.Delimiter != "" && d.Format != record.CSV:
		return errors.New("the delimiter is for CSV")
	case (d.Quote != "" || d.NoHeader) && d.Format != record.CSV:
		return errors.New("the quote and the header are for CSV")
	case !isOne(d.Delimiter) || d.Delimiter != "" && d.Delimiter == cmp.Or(d.Quote, `"`):
		return fmt.Errorf("the delimiter must be one character, or a tab, and no quote, not %q", d.Delimiter)
	case d.Quote != NoQuote && !isOne(d.Quote):
		return fmt.Errorf("the quote must be one character or none, not %q", d.Quote)
	case d.SkipLines < 0 || d.SkipLines > 0 && d.Format == record.JSON:
		return errors.New("the lines to skip must be 0 or more, and 0 for JSON")
	case d.Name != "" && d.Resource != record.Event:
		return errors.New("the name is for events; use the type for entities")
	case d.Type != "" && d.Resource != record.Entity:
		return errors.New("the type is for entities; use the name for events")
	case d.Mirror && d.Resource != record.Entity:
		return errors.New("only entities can be mirrored; events never change")
	case len(d.TimeFormats) > 0 && d.Resource != record.Event:
		return errors.New("the time format is for occurred_at of events")
	case d.Time != "" && (d.Time != TimeNow || d.Resource != record.Event):
		return errors.New("the time can only be now, and only for events")
	}
	_, err := newColumns(d, nil)
	return err
}

// isOne reports whether text is empty or one character that can be a delimiter or a quote.
func isOne(text string) bool { return len([]rune(text)) <= 1 && !strings.ContainsAny(text, "\r\n") }
