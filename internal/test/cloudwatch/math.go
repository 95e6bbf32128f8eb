package cloudwatch

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
)

// value is the value of an expression in one period. It is a scalar or a point of a time
// series. A point may be missing.
type value struct {
	n       float64
	series  bool
	missing bool
}

func scalar(n float64) value { return value{n: n} }

// evalMath evaluates a metric math expression in one period. The syntax of the expression is a
// subset of Go's syntax. The keys of points are the ids of the metrics. The values of points are
// the values of the metrics in the period.
//
// Source: CloudWatch User Guide, "Using metric math".
func evalMath(e ast.Expr, points map[string]value) (value, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseFloat(e.Value, 64)
		return scalar(n), err
	case *ast.Ident:
		v, ok := points[e.Name]
		if !ok {
			return value{}, fmt.Errorf("there is no metric %q", e.Name)
		}
		return v, nil
	case *ast.ParenExpr:
		return evalMath(e.X, points)
	case *ast.BinaryExpr:
		x, err := evalMath(e.X, points)
		if err != nil {
			return value{}, err
		}
		y, err := evalMath(e.Y, points)
		if err != nil {
			return value{}, err
		}
		return binary(x, e.Op, y)
	case *ast.CallExpr:
		name, _ := e.Fun.(*ast.Ident)
		var args []value
		for _, arg := range e.Args {
			v, err := evalMath(arg, points)
			if err != nil {
				return value{}, err
			}
			args = append(args, v)
		}
		if name != nil && name.Name == "TIME_SERIES" && len(args) == 1 && !args[0].series {
			return value{n: args[0].n, series: true}, nil
		}
		if name != nil && name.Name == "IF" && len(args) == 3 && args[0].series {
			return choose(args[0], args[1], args[2]), nil
		}
	}
	return value{}, fmt.Errorf("metric math with %T is not supported", e)
}

// binary applies an operator to two values. If both are series and only one has a point
// in this period, the missing point counts as 0. The result of a division by zero is a
// missing point.
func binary(x value, op token.Token, y value) (value, error) {
	v := value{series: x.series || y.series}
	switch {
	case x.series && y.series:
		v.missing = x.missing && y.missing
	default:
		v.missing = x.missing || y.missing
	}
	switch op {
	case token.ADD:
		v.n = x.n + y.n
	case token.SUB:
		v.n = x.n - y.n
	case token.MUL:
		v.n = x.n * y.n
	case token.QUO:
		v.missing = v.missing || y.n == 0
		v.n = x.n / y.n
	case token.GEQ:
		v.n = truth(x.n >= y.n)
	case token.GTR:
		v.n = truth(x.n > y.n)
	default:
		return value{}, fmt.Errorf("the operator %v is not supported", op)
	}
	if v.missing {
		v.n = 0 // a missing point counts as 0 in an operation with another series
	}
	return v, nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// choose implements IF(condition, then, otherwise) with a series as the condition. If the
// point of the condition is missing, the result is missing. If the condition is true and the
// point of the second argument is missing, the result is 0.
func choose(condition, then, otherwise value) value {
	switch {
	case condition.missing:
		return value{series: true, missing: true}
	case condition.n != 0:
		return value{n: then.n, series: true}
	}
	return value{n: otherwise.n, series: true, missing: otherwise.missing}
}
