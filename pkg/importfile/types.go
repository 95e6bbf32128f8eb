package importfile

import (
	"io"
	"slices"

	"sluice/pkg/record"
)

// ChooseTypes reads a CSV file and returns d with a type for each attribute that has none: that of
// an index, or for an Auto column the one type that all its values have, which is Text if they
// differ. Without Auto columns, it reads only the header. It returns the description of any other
// file unchanged.
//
// each may be nil; it is called after each row, and its error ends the reading.
func ChooseTypes(file io.Reader, d Description, o Options, each func() error) (Description, error) {
	if d.Format != record.CSV {
		return d, nil
	}
	r, err := Open(file, d, o)
	if err != nil {
		return d, err
	}
	if !slices.ContainsFunc(r.header, func(c *column) bool { return c.Type == Auto }) {
		return r.withTypes(), nil
	}
	for {
		row, err := r.csv.next()
		switch {
		case err == io.EOF:
			return r.withTypes(), nil
		case err != nil:
			return d, err
		case row.err == nil:
			r.count(row.cells)
		}
		if each != nil {
			if err := each(); err != nil {
				return d, err
			}
		}
	}
}

// count counts the types of a row's cells.
func (r *Reader) count(cells []cell) {
	cells, err := r.csv.fit(cells)
	if err != nil {
		return
	}
	for i, c := range cells {
		if c.text != "" {
			r.header[i].values++
		}
		if r.header[i].Type == Auto {
			r.header[i].kinds.addCell(c)
		}
	}
}

// withTypes returns the description with the types of the columns.
func (r *Reader) withTypes() Description {
	d := r.description
	d.Columns = slices.Clone(d.Columns)
	for _, col := range r.header {
		if col.Type == Auto {
			col.Type = col.kinds.choose()
		}
		if !col.attribute || r.columns.export {
			continue
		}
		at := slices.IndexFunc(d.Columns, func(c Column) bool { return c.Source == col.Source })
		if at < 0 {
			at = len(d.Columns)
			d.Columns = append(d.Columns, Column{Source: col.Source})
		}
		d.Columns[at].Type = col.Type
	}
	return d
}
