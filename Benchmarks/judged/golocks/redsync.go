//go:build redsync

package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

func init() { lockers["redsync"] = newRedsyncLock }

// The fraction of the TTL within which a server must reply: redsync's default.
const timeoutFactor = 0.05

type redsyncLock struct {
	sync  *redsync.Redsync
	ttl   time.Duration
	mutex *redsync.Mutex
}

func newRedsyncLock(t target) locker {
	ttl := time.Duration(t.TTL) * time.Millisecond
	timeout := time.Duration(float64(ttl) * timeoutFactor)
	options := []redis.DialOption{
		redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout),
	}
	dials := []func() (redis.Conn, error){}
	for _, port := range t.Ports {
		port := port
		dials = append(dials, func() (redis.Conn, error) { return redis.Dial("tcp", address(port), options...) })
	}
	if len(t.Sentinels) > 0 {
		dials = append(dials, func() (redis.Conn, error) { return dialPrimary(t, options) })
	}
	pools := []redsyncredis.Pool{}
	for _, dial := range dials {
		pools = append(pools, redigo.NewPool(&redis.Pool{
			MaxIdle: 3, IdleTimeout: 240 * time.Second, Dial: dial,
			TestOnBorrow: func(c redis.Conn, _ time.Time) error {
				if len(t.Sentinels) > 0 {
					return checkPrimary(c)
				}
				_, err := c.Do("PING")
				return err
			},
		}))
	}
	return &redsyncLock{sync: redsync.New(pools...), ttl: ttl}
}

// redigo does not support Sentinel, so this asks the Sentinels in turn, as the package FZambia/sentinel does.
func dialPrimary(t target, options []redis.DialOption) (redis.Conn, error) {
	err := errors.New("no Sentinel answers")
	for _, port := range t.Sentinels {
		var sentinel, primary redis.Conn
		if sentinel, err = redis.Dial("tcp", address(port), options...); err != nil {
			continue
		}
		var words []string
		words, err = redis.Strings(sentinel.Do("SENTINEL", "get-master-addr-by-name", t.Primary))
		sentinel.Close()
		if err != nil || len(words) != 2 {
			continue
		}
		if primary, err = redis.Dial("tcp", words[0]+":"+words[1], options...); err != nil {
			continue
		}
		if err = checkPrimary(primary); err == nil {
			return primary, nil
		}
		primary.Close()
	}
	return nil, err
}

func checkPrimary(c redis.Conn) error {
	role, err := redis.Values(c.Do("ROLE"))
	if err != nil {
		return err
	}
	if word, err := redis.String(role[0], nil); err != nil || word != "master" {
		return errors.New("the server is not a primary")
	}
	return nil
}

func (l *redsyncLock) acquire(name string, wait time.Duration, begin time.Time) answer {
	l.mutex = l.sync.NewMutex(name, redsync.WithExpiry(l.ttl))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := l.mutex.LockContext(ctx); err != nil {
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
			return answer{Result: "held"}
		}
		return failed(err)
	}
	return answer{Result: "granted", Valid: l.mutex.Until().Sub(begin).Milliseconds()}
}

func (l *redsyncLock) extend(begin time.Time) answer {
	if ok, err := l.mutex.Extend(); !ok {
		return lost(err)
	}
	return answer{Result: "renewed", Valid: l.mutex.Until().Sub(begin).Milliseconds()}
}

func (l *redsyncLock) release() answer {
	if ok, err := l.mutex.Unlock(); !ok {
		return lost(err)
	}
	return answer{Result: "released"}
}

func lost(err error) answer {
	var taken *redsync.ErrTaken
	if err == nil || errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) || errors.Is(err, redsync.ErrExtendFailed) {
		return answer{Result: "lost"}
	}
	return failed(err)
}

func (l *redsyncLock) abandon() {}
