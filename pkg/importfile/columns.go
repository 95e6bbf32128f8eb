package importfile

import (
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// columns turns a file's records into the form that the API accepts.
type columns struct {
	Description
	known    []string          // fields that a column or member can name, except attributes
	ignored  []string          // of these, the ones that the service sets
	becomes  map[string]Column // by Source
	rename   bool              // whether to rename the members of JSON objects; CSV columns are renamed in the header
	found    map[string]bool   // the Sources that have been found in the file
	readable bool              // whether at least one record's members could be read
	times    *times            // nil for RFC 3339
}

func newColumns(d Description) (*columns, error) {
	members := Members(d.Resource)
	c := &columns{
		Description: d, known: record.Columns(members), ignored: record.SetByService(members), becomes: make(map[string]Column),
		rename: len(d.Columns) > 0 && d.Format != record.CSV, found: make(map[string]bool),
	}
	if d.Mirror {
		c.known = append(c.known, inTombstones...)
	}
	if err := c.checkColumns(); err != nil {
		return nil, err
	}
	var err error
	c.times, err = newTimes(d)
	return c, err
}

// inTombstones are the members that only the changes in walks have.
var inTombstones = []string{"deleted", "deleted_at", "erased", "erased_at", "reason"}

// checkColumns fails if a Source is there twice, or becomes an unknown field or the same field as
// another.
func (c *columns) checkColumns() error {
	from := make(map[string]string)
	for _, column := range c.Columns {
		if _, twice := c.becomes[column.Source]; twice {
			return fmt.Errorf("the column %q is described twice", column.Source)
		}
		c.becomes[column.Source] = column
		field := column.Field
		switch {
		case column.Out || field == "":
			continue
		case !c.isField(field) || slices.Contains(c.ignored, field):
			return fmt.Errorf("the column %q cannot become %q, which is not a field; the fields are %s, attributes and %sNAME", column.Source, field, strings.Join(Fields(c.Resource), ", "), AttributePrefix)
		}
		if other, taken := from[field]; taken {
			return fmt.Errorf("both columns %q and %q become the field %s", other, column.Source, field)
		}
		from[field] = column.Source
	}
	return nil
}

func (c *columns) isField(name string) bool {
	return strings.HasPrefix(name, AttributePrefix) || name == "attributes" || slices.Contains(c.known, name)
}

// field returns the field that a column or member becomes, or "" if it is left out.
func (c *columns) field(name string) string {
	column, described := c.becomes[name]
	if described {
		c.found[name] = true
	}
	switch {
	case column.Out:
		return ""
	case column.Field != "":
		return column.Field
	case len(c.becomes) == 0 || c.isField(name):
		return name
	}
	return AttributePrefix + name
}

// find remembers which Sources are members of a record.
func (c *columns) find(members []record.Pair) {
	c.readable = true
	for _, m := range members {
		if _, described := c.becomes[m.Name]; described {
			c.found[m.Name] = true
		}
	}
}

// layout returns the file's layout. After the header is read, checkHeader must be called.
func (c *columns) layout() recordfile.Layout {
	l := recordfile.Layout{Columns: c.known, Delimiter: c.Delimiter}
	if len(c.becomes) > 0 {
		l.Rename = c.field
	}
	return l
}

// checkHeader fails if the file is CSV and lacks a column that the description names.
func (c *columns) checkHeader(format record.Format) error {
	if format != record.CSV {
		return nil
	}
	for _, column := range c.Columns {
		if !c.found[column.Source] {
			return fmt.Errorf("line 1: the header lacks the column %q of the description", column.Source)
		}
	}
	return nil
}

// checkFound is Reader.Missing.
func (c *columns) checkFound(attributes bool) error {
	if !c.readable {
		return nil
	}
	for _, column := range c.Columns {
		if c.found[column.Source] || column.Out || column.Field == "" {
			continue
		}
		if isAttribute := column.Field == "attributes" || strings.HasPrefix(column.Field, AttributePrefix); attributes || !isAttribute {
			return fmt.Errorf("no record has the member %q, which becomes %s; write it as in the file, or leave it out of the description", column.Source, column.Field)
		}
	}
	return nil
}

// plain reports whether the file may have records in the form of the API, which need no conversion.
func (c *columns) plain() bool {
	return len(c.becomes) == 0 && c.times == nil && c.Name == "" && c.Type == "" && !c.EscapeIDs
}
