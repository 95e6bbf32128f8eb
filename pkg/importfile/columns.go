package importfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// columns says what the columns of a CSV file and the members of JSON objects become.
type columns struct {
	Description
	fields   []string           // that clients can choose, except attributes
	ignored  []string           // that the service sets
	byName   map[string]*column // by Source
	parents  map[string]bool    // members of which a Source names a part: properties, for properties.time
	export   bool               // whether a CSV file has the header of an export
	indexes  []Index
	times    *times    // nil for RFC 3339
	order    []*column // found members, in order of the first of each
	readable bool      // whether at least one record's members could be read
}

// column is a column or member that the description names or that has been found.
type column struct {
	Column
	described bool
	found     bool
	values    int64  // cells or members that are neither empty nor null, if surveyed
	attribute bool   // whether it becomes an attribute
	name      string // of the field or attribute; empty if the column is left out
	kinds     kinds
}

func newColumns(d Description, indexes []Index) (*columns, error) {
	members := Members(d.Resource)
	c := &columns{Description: d, fields: Fields(d.Resource), ignored: record.SetByService(members), byName: make(map[string]*column), parents: make(map[string]bool), indexes: indexes}
	if d.Mirror {
		c.fields = append(c.fields, "deleted", "reason")
		c.ignored = append(c.ignored, "deleted_at", "erased", "erased_at")
	}
	from := make(map[string]string)
	for _, described := range d.Columns {
		if _, twice := c.byName[described.Source]; twice {
			return nil, fmt.Errorf("the column %q is described twice", described.Source)
		}
		if field := described.Field; field != "" && !described.Out {
			if !c.isField(field) {
				return nil, fmt.Errorf("the column %q cannot become %q, which is not a field; the fields are %s, attributes and %sNAME", described.Source, field, strings.Join(c.fields, ", "), AttributePrefix)
			}
			if other, taken := from[field]; taken {
				return nil, fmt.Errorf("both columns %q and %q become the field %s", other, described.Source, field)
			}
			from[field] = described.Source
		}
		col := c.resolve(described)
		col.described = true
		switch {
		case described.Type != "" && !slices.Contains(valueTypes, described.Type):
			return nil, fmt.Errorf("the column %q has the unknown type %q; the types are text, number, boolean, json and auto", described.Source, described.Type)
		case described.Type != "" && !col.attribute:
			return nil, fmt.Errorf("the column %q has the type %s, but only attributes have types", described.Source, described.Type)
		}
		c.byName[described.Source] = col
		if d.Format != record.CSV {
			for i, char := range described.Source {
				if char == '.' {
					c.parents[described.Source[:i]] = true
				}
			}
		}
	}
	var err error
	c.times, err = newTimes(d)
	return c, err
}

func (c *columns) isField(name string) bool {
	return strings.HasPrefix(name, AttributePrefix) || name == "attributes" || slices.Contains(c.fields, name)
}

// resolve says what a column becomes. Without a description, an unknown name stays what it is, so
// that it is an error.
func (c *columns) resolve(described Column) *column {
	col := &column{Column: described}
	field := described.Field
	switch {
	case described.Out, field == "" && slices.Contains(c.ignored, described.Source):
		return col
	case field != "":
	case c.isField(described.Source) || len(c.Columns) == 0:
		field = described.Source
	default:
		field = AttributePrefix + described.Source
	}
	col.name, col.attribute = strings.CutPrefix(field, AttributePrefix)
	if !col.attribute {
		col.name = field
	}
	return col
}

// of returns the column with a name in the file.
func (c *columns) of(name string) *column {
	col := c.byName[name]
	if col == nil {
		col = c.resolve(Column{Source: name})
		c.byName[name] = col
	}
	if !col.found {
		col.found = true
		c.order = append(c.order, col)
	}
	return col
}

// ofHeader returns the columns of a CSV file. Columns that it lacks, and those with unknown names,
// are errors.
func (c *columns) ofHeader(header []string) (list []*column, err error) {
	all := record.Columns(Members(c.Resource))
	c.export = len(header) >= len(all) && slices.Equal(header[:len(all)], all)
	taken := make(map[string]bool)
	for i, name := range header {
		if name == "" && !c.export {
			name = columnName(i)
			if c.byName[name] == nil {
				c.byName[name] = &column{Column: Column{Source: name, Out: true}}
			}
		}
		col := c.of(name)
		list = append(list, col)
		field := col.field()
		switch {
		case col.out():
		case taken[field]:
			return nil, fmt.Errorf("the column %q occurs twice", name)
		case col.attribute && taken["attributes"], field == "attributes" && slices.ContainsFunc(list, func(c *column) bool { return c.attribute }):
			return nil, fmt.Errorf("the header must not have both the column attributes and the column %q", name)
		case !c.isField(field):
			return nil, fmt.Errorf("the column %q is unknown; the known columns are %s, attributes, %s<name>; say what it becomes, such as %s",
				name, strings.Join(all, ", "), AttributePrefix, AttributePrefix+name)
		}
		taken[field] = true
	}
	for _, described := range c.Columns {
		if !c.byName[described.Source].found {
			return nil, fmt.Errorf("the header lacks the column %q of the description", described.Source)
		}
	}
	for _, col := range list {
		col.Type = c.typeOf(col)
	}
	return list, nil
}

// typeOf returns the type of a CSV column: from the description, from the index on the attribute,
// or, in an export, by each cell.
func (c *columns) typeOf(col *column) ValueType {
	switch {
	case col.Type != "" && col.Type != Auto || !col.attribute:
		return col.Type
	case c.export:
		return JSON
	}
	found, types := ValueType(""), false
	for _, other := range c.byName {
		types = types || other.found && other.name == "type" && !other.attribute
	}
	for _, x := range c.indexes {
		if x.Attribute != col.name || c.Resource != record.Entity || !types && x.EntityType != cmp.Or(c.Type, entity.DefaultType) {
			continue
		}
		if found != "" && found != x.Type {
			return Auto
		}
		found = x.Type
	}
	if found != "" {
		return found
	}
	return Auto
}

func (c *column) out() bool { return !c.attribute && c.name == "" }

// field returns the field as in a Description, or "" if the column is left out.
func (c *column) field() string {
	if c.attribute {
		return AttributePrefix + c.name
	}
	return c.name
}

// missing is Reader.Missing.
func (c *columns) missing(attributes bool) error {
	if !c.readable {
		return nil
	}
	for _, described := range c.Columns {
		col := c.byName[described.Source]
		if col.found || described.Out || described.Field == "" {
			continue
		}
		if isAttribute := col.attribute || col.name == "attributes"; attributes || !isAttribute {
			return fmt.Errorf("no record has the member %q, which becomes %s; write it as in the file, or leave it out of the description", described.Source, described.Field)
		}
	}
	return nil
}

// plain reports whether the file may have records in the form of the API, which need no conversion.
func (c *columns) plain() bool {
	return len(c.Columns) == 0 && c.times == nil && c.Name == "" && c.Type == "" && !c.EscapeIDs
}
