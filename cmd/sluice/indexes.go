package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/index"
)

type indexes struct {
	index.Store
	keeper index.Keeper // adds and removes the index keys; nil if a server does that
}

type indexStorage = storage[indexes]

func indexesCommand(getenv func(string) string) *cobra.Command {
	o := &indexStorage{
		getenv: getenv, what: "entities", variable: "ENTITIES_TABLE", logicalID: "EntitiesTable",
		openDir: func(dir string) (indexes, error) {
			s, err := bolt.OpenIndexes(dir)
			return indexes{Store: s}, err
		},
		openTable: func(client *dynamodb.Client, name string) (indexes, error) {
			s, err := dynamo.NewIndexes(client, name)
			if err != nil {
				return indexes{}, err
			}
			keeper, err := dynamo.NewEntities(client, name, dynamo.EntitiesConfig{})
			return indexes{s, keeper}, err
		},
	}
	return o.command("indexes", "Choose the attributes by which entities can be found",
		`Choose the attributes of an entity type by which entities can be found, with at most
four indexes for a workspace and type:

  GET /entity?type=person&attributes.email=ada@example.com
  GET /entity?type=order&attributes.status=paid&attributes.total[gte]=100

The second query needs an index on both attributes. An index covers up to three, and
only entities that have all of them. It serves queries that give a value for each but
the last that they name, and always for the first.

A value that is not of the declared type is not indexed, nor are texts over 800 bytes
in all or a number beyond 38 digits. Each index adds one write unit to the creation of
an entity that has its attributes, and two to a change of their values.

In a data directory, the running server builds the index. In DynamoDB, this command
does: it waits until all instances write the index, then adds the entities that exist.`, addIndexCommand(o), listIndexesCommand(o), removeIndexCommand(o))
}

// indexArgs are the flags that "indexes add" and "indexes remove" have in common.
type indexArgs struct {
	workspace string
	rate      int
}

func (a *indexArgs) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.workspace, "workspace", access.DefaultWorkspace, "workspace of the entities")
	cmd.Flags().IntVar(&a.rate, "rate", index.DefaultRate, "entities per second that this command changes at most; not in a data directory")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) < 2 || len(args) > 1+index.MaxFields {
			return fmt.Errorf("give an entity type and the names of one to %d attributes, such as person email", index.MaxFields)
		}
		return nil
	}
}

func (a *indexArgs) check() error {
	if a.rate < 1 {
		return usageError("--rate must be at least 1")
	}
	return nil
}

// fieldsOf reads attributes, each perhaps followed by what it is, such as total:number. Those without
// are like other.
func fieldsOf(args []string, other index.Field) (fields index.Fields) {
	for i, arg := range args {
		fields[i] = other
		fields[i].Name = arg
		for what, f := range fieldKinds {
			if name, ok := strings.CutSuffix(arg, ":"+what); ok {
				fields[i] = f
				fields[i].Name = name
			}
		}
	}
	return fields
}

var fieldKinds = map[string]index.Field{
	"text":    {ValueType: index.Text},
	"number":  {ValueType: index.Number},
	"boolean": {ValueType: index.Boolean},
	"fold":    {ValueType: index.Text, Fold: true},
}

func addIndexCommand(o *indexStorage) *cobra.Command {
	var a indexArgs
	given := make(map[string]*bool)
	cmd := &cobra.Command{
		Use:   "add TYPE ATTRIBUTE[:number|:boolean|:fold|:text]... [--number|--boolean|--fold] [--workspace NAME]",
		Short: "Index attributes, or continue to",
		Long: `Index up to three attributes of the entities of a type. Their values are texts that
compare exactly, unless a flag, or :number, :boolean or :fold after a name, says otherwise.
A flag is for all names without such an ending. Folded texts compare regardless of case.
Queries are refused until the index is complete.

If the command is stopped, run it again to continue.`,
		Example: `  sluice indexes add person email
  sluice indexes add person name --fold
  sluice indexes add person born --number --table sluice-EntitiesTable-1ABCDEF
  sluice indexes add order status total:number --workspace acme`,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := ""
			for what, set := range given {
				if *set && kind != "" {
					return usageError("give only one of --number, --boolean and --fold")
				}
				if *set {
					kind = what
				}
			}
			d := index.Declaration{Workspace: a.workspace, Type: args[0], Fields: fieldsOf(args[1:], fieldKinds[cmp.Or(kind, "text")])}
			if err := errors.Join(d.Validate(), a.check()); err != nil {
				return usageError("%w", err)
			}
			s, where, err := o.openNew(cmd)
			if err != nil {
				return err
			}
			if d, err = index.Add(cmd.Context(), s, d); err != nil {
				return err
			}
			return a.finish(cmd, o, s, where, d)
		},
	}
	a.addFlags(cmd)
	given["number"] = cmd.Flags().Bool("number", false, "index values that are JSON numbers")
	given["boolean"] = cmd.Flags().Bool("boolean", false, "index values that are true or false")
	given["fold"] = cmd.Flags().Bool("fold", false, "index texts regardless of case")
	return cmd
}

func removeIndexCommand(o *indexStorage) *cobra.Command {
	var a indexArgs
	cmd := &cobra.Command{
		Use:     "remove TYPE ATTRIBUTE... [--workspace NAME]",
		Short:   "Remove an index, or continue to",
		Long:    "Remove the index on these attributes. Queries are refused at once. The entities stay as they are.\n\nIf the command is stopped, run it again to continue.",
		Example: "  sluice indexes remove person email\n  sluice indexes remove order status total",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check(); err != nil {
				return err
			}
			s, where, err := o.open(cmd)
			if err != nil {
				return err
			}
			fields := fieldsOf(args[1:], index.Field{})
			d, err := index.Remove(cmd.Context(), s, a.workspace, args[0], fields.Names()...)
			if errors.Is(err, index.ErrNotFound) {
				return fmt.Errorf("%s is not indexed in %s; \"sluice indexes list\" shows what is", index.Declaration{Type: args[0], Fields: fields}.Name(), where)
			}
			if err != nil {
				return err
			}
			return a.finish(cmd, o, s, where, d)
		},
	}
	a.addFlags(cmd)
	return cmd
}

// finish builds or removes the index that d declares, or says that the server will do so.
func (a *indexArgs) finish(cmd *cobra.Command, o *indexStorage, s indexes, where string, d index.Declaration) error {
	removing := d.State == index.Removing
	switch {
	case d.State == index.Ready:
	case s.keeper == nil:
		fmt.Fprintf(cmd.ErrOrStderr(), "The server that uses %s does the rest while it runs; \"sluice indexes list\" shows how far it is.\n", where)
	default:
		var err error
		if d, err = a.run(cmd.Context(), s, d, cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("%w\nThe index of %s is not complete; run the same command again to continue", err, d.Name())
		}
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), d)
	case removing && s.keeper != nil:
		fmt.Fprintf(cmd.OutOrStdout(), "The index of %s is removed.\n", d.Name())
	case d.State == index.Ready:
		fmt.Fprintf(cmd.OutOrStdout(), "The index of %s is ready: %s.\n", d.Name(), describeBuild(d.Build))
	}
	return nil
}

var entityNoun = progress.Noun{One: "entity", Many: "entities"}

func (a *indexArgs) run(ctx context.Context, s indexes, d index.Declaration, stderr io.Writer) (index.Declaration, error) {
	var now atomic.Pointer[progress.State]
	show := func(d index.Declaration, waiting bool) {
		state := progress.State{Done: d.Build.Read, Part: d.Done()}
		switch {
		case waiting:
			state.Waiting = fmt.Sprintf("waiting %.0f s until all instances know", index.TakeUp.Seconds())
		case d.State == index.Removing:
			state.Waiting = "removing the keys"
		}
		now.Store(&state)
	}
	show(d, false)
	stop := progress.Start(stderr, entityNoun, func() progress.State { return *now.Load() })
	defer stop()
	return index.NewBuilder(s.Store, s.keeper, index.BuilderConfig{Rate: a.rate, Progress: show}).Run(ctx, d)
}

func describeBuild(b index.Build) string {
	text := fmt.Sprintf("%s indexed, %d without an attribute", entityNoun.Count(b.Indexed), b.Absent)
	if b.Unfit > 0 {
		text += fmt.Sprintf(", %d with a value that cannot be indexed", b.Unfit)
	}
	return text
}

func listIndexesCommand(o *indexStorage) *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "list [--workspace NAME]",
		Short: "Show the indexes and how far they are built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd, "workspace"); err != nil {
				return err
			}
			s, where, err := o.open(cmd)
			if err != nil {
				return err
			}
			all, err := s.List(cmd.Context())
			if workspace != "" {
				all = slices.DeleteFunc(all, func(d index.Declaration) bool { return d.Workspace != workspace })
			}
			switch {
			case err != nil:
				return err
			case o.json:
				return printJSON(cmd.OutOrStdout(), append([]index.Declaration{}, all...))
			case len(all) == 0:
				fmt.Fprintf(cmd.ErrOrStderr(), "No attribute is indexed in %s.\n", where)
				return nil
			}
			return printIndexes(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "only indexes of this workspace")
	return cmd
}

func printIndexes(w io.Writer, all []index.Declaration) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKSPACE\tTYPE\tATTRIBUTES\tPLACE\tSTATE\tDONE\tINDEXED\tABSENT\tUNFIT")
	for _, d := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%.0f %%\t%d\t%d\t%d\n", d.Workspace, d.Type, d.Fields, d.Place, d.State, 100*d.Done(), d.Build.Indexed, d.Build.Absent, d.Build.Unfit)
	}
	return table.Flush()
}
