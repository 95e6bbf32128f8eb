package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"sluice/pkg/client"
	"sluice/pkg/entity"
)

func findCommand(getenv func(string) string) *cobra.Command {
	o := connection{getenv: getenv}
	var q client.FindQuery
	most := 0
	cmd := &cobra.Command{
		Use:   "find TYPE ATTRIBUTE [VALUE] [--gt|--gte VALUE] [--lt|--lte VALUE] [--prefix TEXT]",
		Short: "Find entities by the value of an indexed attribute",
		Long: `Find entities by the value of an indexed attribute, and print them as NDJSON in order
of that value, then of id. "sluice indexes" chooses the attributes. Each entity costs
one record. The key needs the scope export.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice find person email ada@example.com
  sluice find person born --gte 1815 --lt 1900 --desc
  sluice find person name --prefix Ad --limit 10`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return errors.New("give an entity type, an attribute, and a value or flags such as --gte, for example: sluice find person email ada@example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Type, q.Attribute = args[0], args[1]
			if len(args) == 3 {
				q.Where = append(q.Where, client.Condition{Value: args[2]})
			}
			for _, op := range []string{"gt", "gte", "lt", "lte", "prefix"} {
				if f := cmd.Flags().Lookup(op); f.Changed {
					q.Where = append(q.Where, client.Condition{Operator: op, Value: f.Value.String()})
				}
			}
			switch {
			case len(q.Where) == 0:
				return usageError("give a value, or a flag such as --gte or --prefix")
			case most < 0:
				return usageError("--limit must be at least 1")
			}
			c, err := o.client(client.Config{})
			if err != nil {
				return err
			}
			return printFound(cmd.OutOrStdout(), cmd.ErrOrStderr(), c.Found(cmd.Context(), q), most)
		},
	}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.String("gt", "", "only values greater than this one")
	flags.String("gte", "", "only values greater than or equal to this one")
	flags.String("lt", "", "only values less than this one")
	flags.String("lte", "", "only values less than or equal to this one")
	flags.String("prefix", "", "only texts that begin with this one")
	flags.BoolVar(&q.Descending, "desc", false, "the greatest value first")
	flags.IntVar(&most, "limit", 0, "maximum number of entities (default: all)")
	return cmd
}

// printFound prints all entities if limit is 0.
func printFound(stdout, stderr io.Writer, found iter.Seq2[entity.Entity, error], limit int) error {
	out := bufio.NewWriter(stdout)
	n := 0
	for e, err := range found {
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		fmt.Fprintf(out, "%s\n", line)
		if n++; n == limit {
			break
		}
	}
	if n == 0 {
		fmt.Fprintln(stderr, "No entity matches.")
	}
	return out.Flush()
}
