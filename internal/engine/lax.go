package engine

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// falsy is Python's truth of a value that json.load read: what "if value:" passes over. A key that is absent counts as
// None.
func falsy(v gjson.Result) bool {
	switch v.Type {
	case gjson.Null, gjson.False:
		return true
	case gjson.Number:
		return v.Num == 0
	case gjson.String:
		return v.Str == ""
	case gjson.JSON:
		return v.IsObject() && len(v.Map()) == 0 || v.IsArray() && len(v.Array()) == 0
	}
	return false
}

func null(v gjson.Result) bool { return v.Type == gjson.Null } // absent, too

var wholeText = regexp.MustCompile(`\A[+-]?[0-9]{1,15}(\.0+)?\z`)

// laxInt is an int field of pydantic in its lax mode, which its models use unless told otherwise: whole numbers, true
// and false, and whole numbers in quotes.
func laxInt(v gjson.Result) (int64, bool) {
	switch v.Type {
	case gjson.True:
		return 1, true
	case gjson.False:
		return 0, true
	case gjson.Number:
		if v.Num != float64(int64(v.Num)) || v.Num < -1e15 || v.Num > 1e15 {
			return 0, false
		}
		return int64(v.Num), true
	case gjson.String:
		s := strings.TrimSpace(v.Str)
		if !wholeText.MatchString(s) {
			return 0, false
		}
		whole, _, _ := strings.Cut(s, ".")
		n, err := strconv.ParseInt(whole, 10, 64)
		return n, err == nil
	}
	return 0, false
}

var (
	trueTexts  = []string{"1", "on", "t", "true", "y", "yes"}
	falseTexts = []string{"0", "off", "f", "false", "n", "no"}
)

// laxBool is a bool field of pydantic in its lax mode.
func laxBool(v gjson.Result) (value, ok bool) {
	switch v.Type {
	case gjson.True, gjson.False:
		return v.Type == gjson.True, true
	case gjson.Number:
		return v.Num == 1, v.Num == 0 || v.Num == 1
	case gjson.String:
		s := strings.ToLower(v.Str)
		return slices.Contains(trueTexts, s), slices.Contains(trueTexts, s) || slices.Contains(falseTexts, s)
	}
	return false, false
}

// torchDtypes are the names that torch has for element types (PyTorch 2.9), as compressed-tensors looks them up
// (utils/type.py TorchDtype).
var torchDtypes = strings.Fields(`float32 float float64 double float16 half bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
	float8_e8m0fnu float4_e2m1fn_x2 uint8 uint16 uint32 uint64 int8 int16 short int32 int int64 long bool complex32 chalf complex64 cfloat
	complex128 cdouble quint8 qint8 qint32 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16
	uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7`)

// dtypeName is a field of type torch.dtype: "torch.uint8" or "uint8".
func dtypeName(v gjson.Result) (string, bool) {
	name := strings.TrimPrefix(v.Str, "torch.")
	return name, v.Type == gjson.String && slices.Contains(torchDtypes, name)
}

// stringList is a field of type list[str].
func stringList(v gjson.Result) bool {
	return v.IsArray() && !slices.ContainsFunc(v.Array(), func(e gjson.Result) bool { return e.Type != gjson.String })
}
