package template

import (
	"fmt"
	"strings"
	"time"
)

// strftime is datetime.strftime in the C locale, as glibc writes it. An unknown directive is an error, not text.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		flag := byte(0)
		if i < len(format) && strings.IndexByte("-_0^", format[i]) >= 0 {
			flag = format[i]
			i++
		}
		if i >= len(format) {
			return "", unknown("strftime: the format %q ends inside a directive", format)
		}
		text, ok := directive(t, format[i])
		if !ok {
			return "", unknown("strftime: no directive %%%c", format[i])
		}
		number := len(text) > 0 && strings.Trim(text, "0123456789 ") == ""
		switch {
		case flag == '-' && number:
			if text = strings.TrimLeft(text, "0 "); text == "" {
				text = "0"
			}
		case flag == '_' && number:
			trimmed := strings.TrimLeft(text[:len(text)-1], "0") + text[len(text)-1:]
			text = strings.Repeat(" ", len(text)-len(trimmed)) + trimmed
		case flag == '0' && number:
			text = strings.ReplaceAll(text, " ", "0")
		case flag == '^':
			text = strings.ToUpper(text)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func directive(t time.Time, c byte) (string, bool) {
	week := func(first time.Weekday) int { // weeks begin on that day; days before the first such day are week 0
		return (t.YearDay() + 6 - (int(t.Weekday())-int(first)+7)%7) / 7
	}
	year, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	two := func(n int) (string, bool) { return fmt.Sprintf("%02d", n), true }
	switch c {
	case 'a':
		return t.Format("Mon"), true
	case 'A':
		return t.Format("Monday"), true
	case 'b', 'h':
		return t.Format("Jan"), true
	case 'B':
		return t.Format("January"), true
	case 'c':
		return t.Format("Mon Jan _2 15:04:05 2006"), true
	case 'C':
		return two(t.Year() / 100)
	case 'd':
		return two(t.Day())
	case 'D', 'x':
		return t.Format("01/02/06"), true
	case 'e':
		return t.Format("_2"), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'F':
		return t.Format("2006-01-02"), true
	case 'g':
		return two(year % 100)
	case 'G':
		return fmt.Sprint(year), true
	case 'H':
		return two(t.Hour())
	case 'I':
		return two(hour12)
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", hour12), true
	case 'm':
		return two(int(t.Month()))
	case 'M':
		return two(t.Minute())
	case 'n':
		return "\n", true
	case 'p':
		return t.Format("PM"), true
	case 'P':
		return t.Format("pm"), true
	case 'r':
		return t.Format("03:04:05 PM"), true
	case 'R':
		return t.Format("15:04"), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'S':
		return two(t.Second())
	case 't':
		return "\t", true
	case 'T', 'X':
		return t.Format("15:04:05"), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 'U':
		return two(week(time.Sunday))
	case 'V':
		return two(isoWeek)
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'W':
		return two(week(time.Monday))
	case 'y':
		return two(t.Year() % 100)
	case 'Y':
		return fmt.Sprint(t.Year()), true
	case 'z', 'Z': // datetime.now() has no zone
		return "", true
	case '%':
		return "%", true
	}
	return "", false
}
