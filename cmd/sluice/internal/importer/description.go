package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"sluice/pkg/client"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

// Spool copies standard input into a temporary file, because a file is read more than once. The
// caller must remove it, unless there is an error.
func Spool(stdin io.Reader) (path string, err error) {
	file, err := os.CreateTemp("", "sluice-import-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, stdin)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// Complete sets what the beginning of the file shows and the description lacks, such as the
// delimiter. path is that of the file, or of the copy of standard input.
func Complete(path string, d importfile.Description) (importfile.Description, error) {
	opened, err := os.Open(path)
	if err != nil {
		return d, err
	}
	defer opened.Close() //nolint:errcheck // the file is only read
	file := inputFile{opened}
	size, err := file.size()
	if err != nil {
		return d, err
	}
	in, err := file.content(work{Size: size})
	if err != nil {
		return d, err
	}
	beginning := make([]byte, importfile.GuessBytes)
	n, _ := io.ReadFull(in, beginning) // reading the whole file reports an error
	if completed, err := importfile.Complete(beginning[:n], in.name, d, importfile.Options{Decode: decode}); err == nil {
		d = completed
	}
	return d, nil
}

// Indexes returns the indexed attributes of the workspace if they matter for the types of columns.
func Indexes(ctx context.Context, c *client.Client, d importfile.Description) (list []importfile.Index, err error) {
	if d.Format != record.CSV || d.Resource != record.Entity {
		return nil, nil
	}
	all, err := c.EntityIndexes(ctx)
	for _, x := range all {
		if x.State == "removing" || x.Resource != record.Entity {
			continue
		}
		for _, a := range x.Attributes {
			list = append(list, importfile.Index{EntityType: x.Type, Attribute: a.Name, Type: importfile.ValueType(a.ValueType)})
		}
	}
	return list, err
}

// chooseTypes sets the description of an import that begins, and says which types it has chosen.
func (im *importer) chooseTypes(ctx context.Context, file inputFile, stderr io.Writer) error {
	if im.checkpoint.Description.Format != "" {
		return nil
	}
	in, err := file.content(im.work)
	if err != nil {
		return err
	}
	indexes, err := Indexes(ctx, im.client, im.Description)
	if err != nil {
		return err
	}
	d, err := importfile.ChooseTypes(in, im.Description, importfile.Options{Decode: decode, Indexes: indexes}, func() error { return context.Cause(ctx) })
	if err != nil {
		return fmt.Errorf("read %s: %w", im.Path, err)
	}
	im.checkpoint.Description = d
	if types := chosen(im.Description, d); types != "" {
		fmt.Fprintf(stderr, "Types: %s.\n", types)
	}
	if im.SaveAs == "" {
		return nil
	}
	return save(d, im.SaveAs)
}

// Load reads a description that save or the dashboard has written.
func Load(path string) (importfile.Description, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return importfile.Description{}, err
	}
	d, err := importfile.Parse(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return d, err
}

// save replaces only a file that is a description or empty.
func save(d importfile.Description, path string) error {
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
		if _, err := importfile.Parse(text); err != nil {
			return fmt.Errorf("%s exists, and is not replaced, because it is no description of a file", path)
		}
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	return err
}

// chosen lists the types that only the completed description has.
func chosen(asked, completed importfile.Description) string {
	var list []string
	for _, c := range completed.Columns {
		has := func(a importfile.Column) bool {
			return a.Source == c.Source && a.Type != "" && a.Type != importfile.Auto
		}
		if c.Type != "" && !slices.ContainsFunc(asked.Columns, has) {
			list = append(list, record.Shorten(c.Source)+" "+string(c.Type))
		}
	}
	return strings.Join(list, ", ")
}
