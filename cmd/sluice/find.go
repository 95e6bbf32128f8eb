package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/index"
)

func findCommand(getenv func(string) string) *cobra.Command {
	o := connection{getenv: getenv}
	var f finding
	var where []string
	cmd := &cobra.Command{
		Use:   "find TYPE ATTRIBUTE [VALUE] [--gt|--gte VALUE] [--lt|--lte VALUE] [--prefix TEXT] [--where ATTRIBUTE=VALUE]",
		Short: "Find entities by the values of indexed attributes",
		Long: `Find entities by the values of indexed attributes, and print them as NDJSON in order
of these values, then of id. "sluice indexes" chooses the attributes. Standard error says
which index served the query. Each entity costs one record. The key needs the scope export.

With --json, one JSON document has the entities, the index, and the cursor of the next
page, if --limit leaves more.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice find person email ada@example.com
  sluice find person born --gte 1815 --lt 1900 --desc
  sluice find person name --prefix Ad --limit 10
  sluice find order total --gte 100 --where status=paid`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return errors.New("give an entity type, an attribute, and a value or flags such as --gte, for example: sluice find person email ada@example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f.q.Type = args[0]
			if f.q.Where, err = conditions(cmd, args[1:], where); err != nil {
				return err
			}
			if f.most < 0 {
				return usageError("--limit must be at least 1")
			}
			c, err := o.client(client.Config{})
			if err != nil {
				return err
			}
			f.out = bufio.NewWriter(cmd.OutOrStdout())
			err = f.run(cmd.Context(), c, cmd.ErrOrStderr())
			return errors.Join(f.out.Flush(), err)
		},
	}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.String("gt", "", "only values greater than this one")
	flags.String("gte", "", "only values greater than or equal to this one")
	flags.String("lt", "", "only values less than this one")
	flags.String("lte", "", "only values less than or equal to this one")
	flags.String("prefix", "", "only texts that begin with this one")
	flags.StringArrayVar(&where, "where", nil, "only entities with this value of a further attribute, as ATTRIBUTE=VALUE; needs an index on both; repeatable")
	flags.BoolVar(&f.q.Descending, "desc", false, "the greatest value first")
	flags.IntVar(&f.most, "limit", 0, "maximum number of entities (default: all)")
	flags.StringVar(&f.q.Cursor, "cursor", "", "continue where --limit ended an earlier call with the same arguments")
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
	return cmd
}

// conditions returns those of the arguments, an attribute and perhaps its value, and of the flags.
func conditions(cmd *cobra.Command, args, where []string) (all []client.Condition, err error) {
	if len(args) == 2 {
		all = append(all, client.Condition{Attribute: args[0], Value: args[1]})
	}
	for _, op := range []string{"gt", "gte", "lt", "lte", "prefix"} {
		if f := cmd.Flags().Lookup(op); f.Changed {
			all = append(all, client.Condition{Attribute: args[0], Operator: op, Value: f.Value.String()})
		}
	}
	if len(all) == 0 {
		return nil, usageError("give a value, or a flag such as --gte or --prefix")
	}
	for _, text := range where {
		attribute, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usageError("--where must be an attribute and its value, such as status=paid, not %q", text)
		}
		all = append(all, client.Condition{Attribute: attribute, Value: value})
	}
	return all, nil
}

// finding reads the pages of what a query finds.
type finding struct {
	q    client.FindQuery
	most int // maximum number of entities; 0 for all
	json bool
	out  *bufio.Writer
}

const maxPage = 200

func (f finding) run(ctx context.Context, c *client.Client, stderr io.Writer) error {
	all := client.Page[entity.Entity]{Data: []entity.Entity{}}
	n := 0
	for {
		if f.most > 0 {
			f.q.Limit = min(f.most-n, maxPage)
		}
		page, err := c.FindEntities(ctx, f.q)
		if err != nil {
			return err
		}
		n += len(page.Data)
		all.NextCursor, all.Index = page.NextCursor, page.Index
		if f.json {
			all.Data = append(all.Data, page.Data...)
		} else if err := f.print(page.Data); err != nil {
			return err
		}
		if page.NextCursor == nil || n == f.most {
			break
		}
		if *page.NextCursor == f.q.Cursor {
			return errors.New("the next cursor leads to the same page")
		}
		f.q.Cursor = *page.NextCursor
	}
	if f.json {
		return printJSON(f.out, all)
	}
	fmt.Fprintln(stderr, foundText(n, all))
	return nil
}

func (f finding) print(found []entity.Entity) error {
	for _, e := range found {
		line, err := e.AppendJSON(nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(f.out, "%s\n", line)
	}
	return nil
}

// foundText says how many entities a query found, by which index, and how to get more.
func foundText(n int, page client.Page[entity.Entity]) string {
	text := "No entity matches"
	if n > 0 {
		text = entityNoun.Count(int64(n))
	}
	if page.Index != nil {
		var fields index.Fields
		for i, a := range page.Index.Attributes {
			fields[i] = index.Field{Name: a.Name, ValueType: index.ValueType(a.ValueType), Fold: a.Fold}
		}
		text += ", by the index on " + fields.String()
	}
	if page.NextCursor != nil {
		return text + ". For more, add --cursor " + *page.NextCursor
	}
	return text + "."
}
